#include "optimizers/local_steps.h"

#include <algorithm>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/on_host.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr int kTileValues = static_cast<int>(kTileSide * kTileSide);
constexpr const char* kOuterCount = "outer_t";  // of a rule that counts its steps

// The number of each tile of the shard in the whole layout, so that ranks take the same in turn.
std::size_t number_in_layout(const Shard& shard, const Piece& piece) {
  std::size_t number = 0;
  const std::vector<Block>& blocks = shard.layout().blocks();
  for (std::size_t i = 0; i < piece.block; ++i)
    number += blocks[i].grid_rows() * blocks[i].grid_cols();
  const Block& block = blocks[piece.block];
  return number + piece.first_row / block.tile_height * block.grid_cols();
}

}  // namespace

LocalSteps::LocalSteps(Options options) : options_(std::move(options)) {
  const std::string who = options_.name + ": ";
  const Options& o = options_;
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) throw UsageError(who + what);
  };
  need(o.h >= 1, "h must be at least 1");
  need(o.fragments >= 1 && o.fragments <= o.h, "fragments (" + std::to_string(o.fragments) +
                                                   ") must be from 1 to h (" + std::to_string(o.h) +
                                                   "): each has a step of its own");
  need(o.delay >= 0 && o.delay <= 8, "delay must be from 0 to 8");
  need(o.delay < o.h || o.h == 1 || o.delay == 0,
       "delay (" + std::to_string(o.delay) + ") must be below h (" + std::to_string(o.h) +
           "): a part is said again when the last word about it has been heard");
  need(o.h > 1 || o.delay == 0, "with h = 1 a delay has no place; take delay 0");
  need(!o.reduce || (o.delay == 0 && o.fragments == 1),
       "dense means cannot be delayed or cut in fragments; take streaming_diloco");
  need(o.k >= 1 && o.k <= kTileValues, "k must be from 1 to 4096");
  need(o.alpha >= 0.0f && o.alpha <= 1.0f, "alpha must be from 0 to 1");
  need(!o.feedback || o.merge == Merge::drift || o.alpha == 0.0f,
       "alpha must be 0 with feedback, or work that stays in x would be said twice; take "
       "merge=drift");
  need(o.decay >= 0.0f && o.decay <= 1.0f, "decay must be from 0 to 1");
  need(!o.by_tile || !o.outer->whole_matrices(),
       "its outer rule sees tiles in turn and never a whole matrix; take sgd, adamw or lion");
}

Traits LocalSteps::traits() const {
  Traits traits;
  traits.meeting = options_.reduce ? Meeting::reduce : Meeting::gather;
  traits.delay = options_.delay;
  traits.suggested_lr = options_.suggested_lr;
  traits.whole_matrices = options_.inner->whole_matrices() || options_.outer->whole_matrices();
  traits.states = options_.inner->states(StateKind::own);
  for (StateSpec& spec : options_.outer->states(StateKind::replicated)) {
    traits.states.push_back(std::move(spec));
  }
  if (counts_turns()) {
    traits.states.push_back({"outer_turns", StateKind::replicated, StateExtent::whole,
                             static_cast<std::size_t>(options_.fragments)});
  }
  traits.states.push_back({"local", StateKind::own});
  traits.states.push_back({"begun", StateKind::own, StateExtent::whole, 1});
  // By step modulo delay + 1: has this site handed over what it did?
  traits.states.push_back({"handed", StateKind::own, StateExtent::whole,
                           static_cast<std::size_t>(options_.delay) + 1, true});
  if (options_.feedback) {
    traits.states.push_back({"residual", StateKind::own, StateExtent::coefficients});
  }
  if (drifts()) traits.states.push_back({"moved", StateKind::own, StateExtent::elements, 1, true});
  traits.form = {.dense = options_.reduce,
                 .value_bits = options_.reduce ? 0 : code_bits(options_.coarse),
                 .picks_a_tile = static_cast<std::uint16_t>(options_.reduce ? 0 : options_.k),
                 .scales = options_.coarse != Coarse::plain && !options_.reduce};
  // What it does in a step that speaks it does on the host.
  traits.on_device = options_.inner->on_device() && options_.outer->on_device();
  return traits;
}

// Without a delay the site is where it was when it spoke, and the merge is a = x.
bool LocalSteps::drifts() const { return options_.merge == Merge::drift && options_.delay > 0; }

// Each fragment is moved in turn, so a count of the outer rule's steps is one for each.
bool LocalSteps::counts_turns() const {
  return options_.fragments > 1 &&
         std::ranges::any_of(options_.outer->states(StateKind::replicated),
                             [](const StateSpec& spec) { return spec.name == kOuterCount; });
}

bool LocalSteps::due(std::uint64_t step, int fragment) const {
  const auto h = static_cast<std::uint64_t>(options_.h);
  return (step + 1) % h == fragment * h / static_cast<std::uint64_t>(options_.fragments);
}

bool LocalSteps::speaks(const Step& step) const {
  for (int fragment = 0; fragment < options_.fragments; ++fragment) {
    if (due(step.index, fragment)) return true;
  }
  return false;
}

std::vector<std::size_t> LocalSteps::due_tiles(const Shard& shard, std::uint64_t step) const {
  std::vector<std::size_t> tiles;
  const auto fragments = static_cast<std::size_t>(options_.fragments);
  for (const Piece& piece : shard.pieces()) {
    const std::size_t number = number_in_layout(shard, piece);
    const std::size_t unit = shard.layout().blocks()[piece.block].unit;
    for (std::size_t i = 0; i < piece.tiles; ++i) {
      const std::size_t turn = options_.by_tile ? number + i : unit;
      if (due(step, static_cast<int>(turn % fragments))) tiles.push_back(piece.first_tile + i);
    }
  }
  return tiles;
}

Floats LocalSteps::gradient_point(const Step&, Shard& shard) {
  begin(shard);
  return shard.state("local");
}

// A site whose own weights have left the finite floats would be silent for ever.
void LocalSteps::begin(Shard& shard) const {
  const Floats local = shard.state("local");
  float& begun = shard.state("begun")[0];
  if (begun != 0.0f && kernels::all_finite(local)) return;
  copy(shard.params(), local);
  begun = 1.0f;
}

// Has this site handed over what it did up to that step?
float& LocalSteps::handed(Shard& shard, std::uint64_t step) const {
  return shard.state("handed")[step % (static_cast<std::uint64_t>(options_.delay) + 1)];
}

void LocalSteps::begin_outer(Shard& shard, std::uint64_t said) const {
  if (!counts_turns()) return options_.outer->begin(shard);
  int fragment = 0;
  while (!due(said, fragment)) ++fragment;
  float& turns = shard.state("outer_turns")[static_cast<std::size_t>(fragment)];
  float& count = shard.state(kOuterCount)[0];
  count = turns;
  options_.outer->begin(shard);
  turns = count;
}

Update LocalSteps::extract(const Step& step, Shard& shard) {
  if (!options_.by_tile && options_.fragments > shard.layout().units()) {
    throw UsageError(options_.name + ": fragments (" + std::to_string(options_.fragments) +
                     ") must not be more than the model has units (" +
                     std::to_string(shard.layout().units()) + ")");
  }
  const Move how{.lr = step.lr,
                 .keep = 1.0f - step.lr * options_.weight_decay,
                 .scale = clip_factor(step.norm, options_.clip)};
  const Floats local = shard.state("local");
  options_.inner->begin(shard);
  for (const Piece& piece : shard.pieces()) {
    options_.inner->move(shard, piece, part(shard.grad(), piece), part(local, piece), how);
  }
  if (!speaks(step)) return {};
  handed(shard, step.index) = 1.0f;
  return on_host(shard, [&](Shard& here) {
    return options_.reduce ? all_of_it(here) : picks_of_it(here, due_tiles(here, step.index));
  });
}

Update LocalSteps::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const auto delay = static_cast<std::uint64_t>(options_.delay);
  if (step.index >= delay) {
    Step said = step;
    said.index -= delay;
    // With nothing heard or handed over there is nothing to do.
    if (speaks(said) && (!heard.empty() || handed(shard, said.index) != 0.0f)) {
      on_host(shard, [&](Shard& here) { hear(said, here, heard); });
    }
  }
  // A site that catches up computes nothing, and is at the anchor until it does.
  if (shard.state("begun")[0] == 0.0f) begin(shard);
  return {};
}

void LocalSteps::hear(const Step& said, Shard& shard, std::span<const Contribution> heard) {
  const bool handed_over = std::exchange(handed(shard, said.index), 0.0f) != 0.0f;
  const std::vector<std::size_t> tiles = due_tiles(shard, said.index);
  const Floats moved = heard.empty() ? Floats() : shard.grad();  // used up
  if (heard.empty()) {
    // The mean was of no use to anybody: the anchor stays, and the sites return to it.
  } else if (options_.reduce) {
    std::copy(heard[0].update.dense.begin(), heard[0].update.dense.end(), moved.begin());
  } else {
    sum_up(shard, heard, said.sites, tiles, moved);
  }
  if (!heard.empty()) begin_outer(shard, said.index);
  for (const Piece& run : runs_of(shard, tiles)) outer_step(shard, run, moved, handed_over);
}

// Consecutive floats of the due tiles: whole pieces, or rows of single tiles.
std::vector<Piece> LocalSteps::runs_of(const Shard& shard,
                                       const std::vector<std::size_t>& tiles) const {
  std::vector<Piece> runs;
  if (options_.by_tile) {
    for (const std::size_t index : tiles) {
      const Tile& tile = shard.tiles()[index];
      for (std::size_t row = 0; row < tile.rows + (tile.tail > 0 ? 1 : 0); ++row) {
        Piece run;
        run.offset = tile.offset + row * tile.stride;
        run.size = row < tile.rows ? tile.cols : tile.tail;
        runs.push_back(run);
      }
    }
    return runs;
  }
  for (const Piece& piece : shard.pieces()) {
    if (std::ranges::binary_search(tiles, piece.first_tile)) runs.push_back(piece);
  }
  return runs;
}

void LocalSteps::outer_step(Shard& shard, const Piece& run, Floats moved, bool handed_over) const {
  const Floats anchor = part(shard.params(), run);
  const std::vector<float> before(anchor.begin(), anchor.end());
  if (!moved.empty()) {
    options_.outer->move(shard, run, part(moved, run), anchor, {.lr = options_.outer_lr});
  }
  if (shard.state("begun")[0] == 0.0f) return;  // starts from the anchor when it starts
  if (handed_over) return merge(shard, run, before);
  const Floats local = part(shard.state("local"), run);
  for (std::size_t i = 0; i < local.size(); ++i) local[i] += anchor[i] - before[i];
}

// The site gives up what it has handed over; `before`: the anchor when it did.
void LocalSteps::merge(Shard& shard, const Piece& run, ConstFloats before) const {
  const ConstFloats anchor = part(shard.params(), run);
  const Floats local = part(shard.state("local"), run);
  if (drifts()) {
    const ConstFloats mine = part(shard.state("moved"), run);
    for (std::size_t i = 0; i < local.size(); ++i) local[i] += (anchor[i] - before[i]) + mine[i];
    return;
  }
  const float alpha = options_.merge == Merge::alpha ? options_.alpha : 0.0f;
  if (alpha == 0.0f) {
    std::copy(anchor.begin(), anchor.end(), local.begin());
    return;
  }
  for (std::size_t i = 0; i < local.size(); ++i) {
    local[i] = alpha * local[i] + (1.0f - alpha) * anchor[i];
  }
}

// With feedback it is owed again, and no longer in the site's own weights. Without, this site goes
// on from where it is, as if it had not spoken.
void LocalSteps::take_back(const Step& said, Shard& shard, const Update& unheard) {
  if (unheard.empty()) return;
  const bool handed_over = std::exchange(handed(shard, said.index), 0.0f) != 0.0f;
  if (!options_.feedback) return;
  on_host(shard, [&](Shard& here) {
    owe_again(here, unheard.picks);
    if (!handed_over) return;
    for (const Piece& run : runs_of(here, due_tiles(here, said.index))) {
      merge(here, run, part(ConstFloats(here.params()), run));
    }
  });
}

}  // namespace thinwire
