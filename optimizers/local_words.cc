// What local steps say between sites: how far a part of the model has moved, coarse, and how the
// words of all sites become one move of the anchor.
#include <algorithm>
#include <array>
#include <utility>

#include "optimizers/local_steps.h"
#include "optimizers/tile_values.h"
#include "thinwire/kernels.h"

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

}  // namespace

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
  // Beyond the floats there is nothing to say, and nothing that could be owed.
  if (!kernels::all_finite(values)) {
    std::ranges::fill(values, 0.0f);
    return;
  }
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

void LocalSteps::owe_again(Shard& shard, const Picks& picks) const {
  const Floats residual = shard.state("residual");
  Cursor cursor{&picks};
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const std::size_t begin = shard.tiles()[i].coefficients;
    cursor.next(i, options_.coarse,
                [&](std::uint16_t position, float value) { residual[begin + position] += value; });
  }
}

}  // namespace thinwire
