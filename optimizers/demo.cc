#include "optimizers/demo.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/tile_votes.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

constexpr std::size_t kTileValues = kTileSide * kTileSide;

std::size_t valid_rows(const Tile& tile) { return tile.rows + (tile.tail > 0 ? 1 : 0); }
std::size_t valid_cols(const Tile& tile, std::size_t row) {
  return row < tile.rows ? tile.cols : tile.tail;
}

// The same tile with its values packed at the start of a buffer of its own.
Tile packed(Tile tile) {
  tile.offset = 0;
  tile.stride = tile.width;
  return tile;
}

// x = keep x - rate sign(direction) over the tile's valid values; direction is packed.
void sign_step_tile(const Tile& tile, Floats x, float keep, float rate, ConstFloats direction) {
  for (std::size_t row = 0; row < valid_rows(tile); ++row) {
    const std::size_t cols = valid_cols(tile, row);
    kernels::sign_step(x.subspan(tile.offset + row * tile.stride, cols), keep, rate,
                       direction.subspan(row * tile.width, cols));
  }
}

// States may come from a file: a position that is none is no place in the tile.
std::optional<std::size_t> place(float position, std::size_t coefficients) {
  if (!(position >= 0.0f && position < static_cast<float>(coefficients))) return std::nullopt;
  return static_cast<std::size_t>(position);
}

Floats coefficients(const Tile& tile, Floats state) {
  return state.subspan(tile.coefficients, tile.height * tile.width);
}

}  // namespace

Demo::Options Demo::distro(int delay) {
  return {.name = "distro",
          .k = 8,
          .bits = 1,
          .weight_decay = 0.1f,
          .delay = delay,
          .look_ahead = delay > 0 ? 1.0f : 0.0f};
}

Demo::Demo(Options options) : options_(std::move(options)) {
  const std::string who = options_.name + ": ";
  if (options_.k < 1 || options_.k > static_cast<int>(kTileValues)) {
    throw UsageError(who + "k must be from 1 to 4096, the values of a tile");
  }
  if (options_.bits != 1 && options_.bits != 32) throw UsageError(who + "bits must be 1 or 32");
  if (options_.clip_to_median && options_.bits == 1) {
    throw UsageError(who + "clip_to_median needs bits = 32; with bits = 1 the vote itself bounds " +
                     "what one site can do");
  }
  if (!(options_.decay >= 0 && options_.decay < 1)) {
    throw UsageError(who + "decay must be from 0 to below 1");
  }
  if (options_.delay < 0 || options_.delay > 8) throw UsageError(who + "delay must be from 0 to 8");
}

Traits Demo::traits() const {
  Traits traits;
  traits.delay = options_.delay;
  traits.suggested_lr = 8e-3f;
  traits.states = {{"residual", StateKind::own, StateExtent::coefficients},
                   {"sent", StateKind::own, StateExtent::per_tile,
                    2 * static_cast<std::size_t>(options_.k) * (options_.delay + 1), true}};
  if (options_.look_ahead > 0) traits.states.push_back({"look_ahead", StateKind::own});
  traits.form = {.dense = false,
                 .value_bits = options_.bits,
                 .picks_a_tile = static_cast<std::uint16_t>(options_.k),
                 .scales = false};
  return traits;
}

Demo::Slot Demo::slot(Floats sent, std::size_t tile, std::uint64_t step) const {
  const std::size_t k = options_.k;
  const std::size_t slots = options_.delay + 1;
  const std::size_t begin = 2 * k * (tile * slots + step % slots);
  return {sent.subspan(begin, k), sent.subspan(begin + k, k)};
}

Update Demo::extract(const Step& step, Shard& shard) {
  const Floats residual = shard.state("residual");
  const Floats sent = shard.state("sent");
  const float scale = step.lr * clip_factor(step.norm, options_.clip);
  std::array<std::uint16_t, kTileValues> positions;
  Update update;
  Picks& picks = update.picks;
  picks.value_bits = options_.bits;
  picks.counts.reserve(shard.tiles().size());
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const Tile& tile = shard.tiles()[i];
    const Floats of_tile = coefficients(tile, residual);
    kernels::fold(tile, shard.grad(), options_.decay, scale, of_tile);
    const std::size_t count = kernels::top_k(of_tile, options_.k, positions.data());
    picks.counts.push_back(static_cast<std::uint16_t>(count));
    const Slot said = slot(sent, i, step.index);
    for (std::size_t pick = 0; pick < count; ++pick) {
      const std::uint16_t position = positions[pick];
      // What is said is no longer owed; its exact value is kept until the round is known to be
      // closed.
      const float value = std::exchange(of_tile[position], 0.0f);
      picks.positions.push_back(position);
      picks.codes.push_back(options_.bits == 1 ? vote_code(value) : float_code(value));
      said.positions[pick] = position;
      said.values[pick] = value;
    }
    if (count < said.values.size()) said.values[count] = 0.0f;
  }
  return update;
}

Update Demo::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const float keep = 1.0f - step.lr * options_.weight_decay;
  const int divisor = options_.combine == Combine::sites ? step.sites : 0;
  std::array<float, kTileValues> direction;
  TileVotes votes(heard, {.clip_to_median = options_.clip_to_median});
  for (const Tile& tile : shard.tiles()) {
    votes.next_tile();
    direction.fill(0.0f);
    if (!votes.empty() && options_.bits == 1) {
      kernels::inverse_votes(packed(tile), votes.positions(), votes.vote_means(divisor), direction);
    } else if (!votes.empty()) {
      kernels::inverse_sparse(packed(tile), {votes.positions(), votes.means(divisor)}, direction);
    }
    sign_step_tile(tile, shard.params(), keep, step.lr, direction);
  }
  // What was said `delay` steps ago has been heard or taken back. Its lists end here and not when
  // the slot is used again: a step whose gradient is skipped says nothing.
  const std::uint64_t delay = options_.delay;
  const Floats sent = shard.state("sent");
  for (std::size_t i = 0; i < shard.tiles().size() && step.index >= delay; ++i) {
    slot(sent, i, step.index - delay).values[0] = 0.0f;
  }
  return {};
}

void Demo::take_back(const Step& said, Shard& shard, const Update& unheard) {
  if (unheard.picks.positions.empty()) return;
  const Floats residual = shard.state("residual");
  const Floats sent = shard.state("sent");
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const Floats of_tile = coefficients(shard.tiles()[i], residual);
    const Slot owed = slot(sent, i, said.index);
    for (std::size_t pick = 0; pick < unheard.picks.counts[i]; ++pick) {
      if (const auto at = place(owed.positions[pick], of_tile.size()))
        of_tile[*at] += owed.values[pick];
    }
  }
}

Floats Demo::gradient_point(const Step& step, Shard& shard) {
  if (options_.look_ahead == 0.0f) return shard.params();
  const Floats point = shard.state("look_ahead");
  std::copy(shard.params().begin(), shard.params().end(), point.begin());
  const Floats residual = shard.state("residual");
  const Floats sent = shard.state("sent");
  std::array<float, kTileValues> owed;
  std::array<float, kTileValues> direction;
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const Tile& tile = shard.tiles()[i];
    const Floats of_tile = coefficients(tile, residual);
    std::copy(of_tile.begin(), of_tile.end(), owed.begin());
    for (int ago = 1; ago <= options_.delay && step.index >= static_cast<std::uint64_t>(ago);
         ++ago) {
      const Slot said = slot(sent, i, step.index - ago);
      for (int pick = 0; pick < options_.k && said.values[pick] != 0.0f; ++pick) {
        if (const auto at = place(said.positions[pick], of_tile.size()))
          owed[*at] += said.values[pick];
      }
    }
    kernels::inverse_dct(tile.height, tile.width, Floats(owed).first(of_tile.size()),
                         Floats(direction).first(of_tile.size()));
    sign_step_tile(tile, point, 1.0f, step.lr * options_.look_ahead, direction);
  }
  return point;
}

}  // namespace thinwire
