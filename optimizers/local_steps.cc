#include "optimizers/local_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/tile_values.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::size_t kTileValues = kTileSide * kTileSide;

// What was said of one tile, coefficient by coefficient.
struct Sum {
  std::vector<float> values = std::vector<float>(kTileValues, 0.0f);
  std::vector<std::uint16_t> senders = std::vector<std::uint16_t>(kTileValues, 0);
};

// Walks the tiles of an update.
struct Cursor {
  const Picks* picks;
  std::size_t pick = 0;
  std::size_t spoken = 0;

  // visit(position, value) for what was said of `tile`, the next one.
  template <class Visit>
  void next(std::size_t tile, Coarse coarse, Visit visit) {
    if (picks->counts.empty() || picks->counts[tile] == 0) return;
    const float scale = picks->scales.empty() ? 0.0f : picks->scales[spoken];
    ++spoken;
    for (const std::size_t end = pick + picks->counts[tile]; pick < end; ++pick) {
      visit(picks->positions[pick], decode(coarse, picks->codes[pick], scale));
    }
  }
};

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
  need(o.k >= 1 && o.k <= static_cast<int>(kTileValues), "k must be from 1 to 4096");
  need(o.alpha >= 0.0f && o.alpha <= 1.0f, "alpha must be from 0 to 1");
  need(o.decay >= 0.0f && o.decay <= 1.0f, "decay must be from 0 to 1");
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
  return traits;
}

// Without a delay the site is where it was when it spoke, and the merge is a = x.
bool LocalSteps::drifts() const { return options_.merge == Merge::drift && options_.delay > 0; }

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
  const Floats local = shard.state("local");
  if (shard.state("begun")[0] == 0.0f) {
    std::copy(shard.params().begin(), shard.params().end(), local.begin());
    shard.state("begun")[0] = 1.0f;
  }
  return local;
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
  const std::uint64_t slot = step.index % (static_cast<std::uint64_t>(options_.delay) + 1);
  shard.state("handed")[slot] = 1.0f;
  return options_.reduce ? all_of_it(shard) : picks_of_it(shard, due_tiles(shard, step.index));
}

// The gradient is used up.
Update LocalSteps::all_of_it(Shard& shard) const {
  const Floats moved = shard.grad();
  const ConstFloats anchor = shard.params();
  const ConstFloats local = shard.state("local");
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = anchor[i] - local[i];
  return dense_update(moved);
}

Update LocalSteps::picks_of_it(Shard& shard, const std::vector<std::size_t>& tiles) {
  const Floats moved = shard.grad();
  const ConstFloats anchor = shard.params();
  const ConstFloats local = shard.state("local");
  Update update;
  update.picks.value_bits = code_bits(options_.coarse);
  update.picks.counts.assign(shard.tiles().size(), 0);
  for (const std::size_t tile : tiles) {
    for_each_value(shard.tiles()[tile], [&](std::size_t, std::size_t at) {
      moved[at] = anchor[at] - local[at];
      if (drifts()) shard.state("moved")[at] = moved[at];
    });
    say(shard, tile, update.picks);
  }
  if (update.picks.positions.empty()) update.picks = {};
  return update;
}

// E of the tile: what is owed with what was moved, in coefficients.
Floats LocalSteps::owed(Shard& shard, std::size_t index) {
  const Tile& tile = shard.tiles()[index];
  const std::size_t size = tile.height * tile.width;
  if (!options_.feedback) {
    scratch_.assign(size, 0.0f);
    kernels::fold(tile, shard.grad(), 0.0f, 1.0f, scratch_, options_.basis);
    return scratch_;
  }
  const Floats residual = shard.state("residual").subspan(tile.coefficients, size);
  kernels::fold(tile, shard.grad(), options_.decay, 1.0f, residual, options_.basis);
  return residual;
}

void LocalSteps::say(Shard& shard, std::size_t index, Picks& picks) {
  const Floats values = owed(shard, index);
  std::array<std::uint16_t, kTileValues> positions;
  const std::size_t count = choose(shard.tiles()[index], values, positions.data());
  picks.counts[index] = static_cast<std::uint16_t>(count);
  if (count == 0) return;
  chosen_.clear();
  for (std::size_t i = 0; i < count; ++i) chosen_.push_back(values[positions[i]]);
  const float scale = scale_of(options_.coarse, chosen_);
  if (options_.coarse != Coarse::plain) picks.scales.push_back(scale);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t code = encode(options_.coarse, chosen_[i], scale);
    picks.positions.push_back(positions[i]);
    picks.codes.push_back(code);
    values[positions[i]] -= decode(options_.coarse, code, scale);
  }
}

// All values of a tile without a choice: positions of whole tiles cost nothing.
std::size_t LocalSteps::choose(const Tile& tile, ConstFloats values,
                               std::uint16_t* positions) const {
  if (options_.k < static_cast<int>(kTileValues)) {
    return kernels::top_k(values, options_.k, positions);
  }
  if (options_.basis != kernels::Basis::none) {
    for (std::size_t i = 0; i < values.size(); ++i) positions[i] = static_cast<std::uint16_t>(i);
    return values.size();
  }
  return for_each_value(tile,
                        [&](std::uint16_t position, std::size_t) { *positions++ = position; });
}

Update LocalSteps::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const auto delay = static_cast<std::uint64_t>(options_.delay);
  if (step.index < delay) return {};
  Step said = step;
  said.index -= delay;
  if (!speaks(said)) return {};
  float& handed = shard.state("handed")[said.index % (delay + 1)];
  const bool handed_over = std::exchange(handed, 0.0f) != 0.0f;
  if (heard.empty() && !handed_over) return {};
  const std::vector<std::size_t> tiles = due_tiles(shard, said.index);
  const Floats moved = heard.empty() ? Floats() : shard.grad();  // used up
  if (heard.empty()) {
    // Nobody was heard: what this site handed over is owed again, and the anchor stays.
  } else if (options_.reduce) {
    std::copy(heard[0].update.dense.begin(), heard[0].update.dense.end(), moved.begin());
  } else {
    sum_up(shard, heard, step.sites, tiles, moved);
  }
  if (!heard.empty()) options_.outer->begin(shard);
  for (const Piece& run : runs_of(shard, tiles)) outer_step(shard, run, moved, handed_over);
  return {};
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

// D, in values.
void LocalSteps::sum_up(const Shard& shard, std::span<const Contribution> heard, int sites,
                        const std::vector<std::size_t>& tiles, Floats into) const {
  std::vector<Cursor> cursors;
  for (const Contribution& one : heard) cursors.push_back({&one.update.picks});
  Sum sum;
  std::vector<std::uint16_t> positions;
  std::vector<float> values;
  auto due = tiles.begin();
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    for (Cursor& cursor : cursors) {
      cursor.next(i, options_.coarse, [&](std::uint16_t position, float value) {
        sum.values[position] += value;
        ++sum.senders[position];
      });
    }
    positions.clear();
    values.clear();
    const Tile& tile = shard.tiles()[i];
    for (std::size_t j = 0; j < tile.height * tile.width; ++j) {
      const int senders = std::exchange(sum.senders[j], std::uint16_t{0});
      const float value = std::exchange(sum.values[j], 0.0f);
      if (senders == 0) continue;
      positions.push_back(static_cast<std::uint16_t>(j));
      values.push_back(value /
                       static_cast<float>(options_.combine == Combine::sites ? sites : senders));
    }
    // What somebody said of a part that is not due is not heard, at any site.
    if (due == tiles.end() || *due != i) continue;
    ++due;
    kernels::inverse_sparse(tile, {positions, values}, into, options_.basis);
  }
}

void LocalSteps::outer_step(Shard& shard, const Piece& run, Floats moved, bool handed_over) const {
  const Floats anchor = part(shard.params(), run);
  const std::vector<float> before(anchor.begin(), anchor.end());
  if (!moved.empty()) {
    options_.outer->move(shard, run, part(moved, run), anchor, {.lr = options_.outer_lr});
  }
  if (shard.state("begun")[0] == 0.0f) return;  // starts from the anchor when it starts
  const Floats local = part(shard.state("local"), run);
  if (!handed_over) {
    for (std::size_t i = 0; i < local.size(); ++i) local[i] += anchor[i] - before[i];
  } else if (drifts()) {
    const ConstFloats mine = part(shard.state("moved"), run);
    for (std::size_t i = 0; i < local.size(); ++i) local[i] += (anchor[i] - before[i]) + mine[i];
  } else {
    const float alpha = options_.merge == Merge::alpha ? options_.alpha : 0.0f;
    for (std::size_t i = 0; i < local.size(); ++i) {
      local[i] = alpha * local[i] + (1.0f - alpha) * anchor[i];
    }
  }
}

// With feedback it is owed again. Without, this site goes on from where it is, as if it had not
// spoken.
void LocalSteps::take_back(const Step& said, Shard& shard, const Update& unheard) {
  if (unheard.empty()) return;
  if (!options_.feedback) {
    shard.state("handed")[said.index % (static_cast<std::uint64_t>(options_.delay) + 1)] = 0.0f;
    return;
  }
  const Floats residual = shard.state("residual");
  Cursor cursor{&unheard.picks};
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const std::size_t begin = shard.tiles()[i].coefficients;
    cursor.next(i, options_.coarse,
                [&](std::uint16_t position, float value) { residual[begin + position] += value; });
  }
}

}  // namespace thinwire
