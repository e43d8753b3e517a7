// The values of a shard by tile and position, for methods that say values as they are,
// untransformed: a value's position is the one it would have among the tile's coefficients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/shard.h"
#include "thinwire/update.h"

namespace thinwire {

// Where in params() the value of that position lies; ~0 in the padding of an edge tile.
inline std::size_t value_at(const Tile& tile, std::size_t position) {
  const std::size_t row = position / tile.width;
  const std::size_t col = position % tile.width;
  const std::size_t cols = row < tile.rows ? tile.cols : row == tile.rows ? tile.tail : 0;
  return col < cols ? tile.offset + row * tile.stride + col : ~std::size_t{0};
}

// visit(position, index in params()) for every value of the tile, ascending; returns how many.
template <class Visit>
std::uint16_t for_each_value(const Tile& tile, Visit visit) {
  std::uint16_t count = 0;
  for (std::size_t row = 0; row < tile.rows + (tile.tail > 0 ? 1 : 0); ++row) {
    const std::size_t cols = row < tile.rows ? tile.cols : tile.tail;
    for (std::size_t col = 0; col < cols; ++col, ++count) {
      visit(static_cast<std::uint16_t>(row * tile.width + col),
            tile.offset + row * tile.stride + col);
    }
  }
  return count;
}

// into += value(code, spoken tile) for every pick that is a value of the shard. Outside bytes may
// name a place in the padding; nothing is there.
template <class Value>
void add_picks(const Shard& shard, const Picks& picks, Floats into, Value value) {
  if (picks.positions.empty()) return;
  std::size_t pick = 0;
  std::size_t spoken = 0;  // tiles with picks so far: the index of their scale
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    for (const std::size_t end = pick + picks.counts[i]; pick < end; ++pick) {
      const std::size_t at = value_at(shard.tiles()[i], picks.positions[pick]);
      if (at < into.size()) into[at] += value(picks.codes[pick], spoken);
    }
    spoken += picks.counts[i] > 0 ? 1 : 0;
  }
}

}  // namespace thinwire
