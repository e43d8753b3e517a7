// The values of a shard by tile and position, for methods that say values as they are,
// untransformed: a value's position is the one it would have among the tile's coefficients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "thinwire/coarse_kernels.h"
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

// What was said in the form that kernels take, and what they said in the form that travels.
inline kernels::WordsView words_of(const Picks& picks) {
  return {picks.counts, picks.positions, picks.codes, picks.scales};
}
inline Picks picks_of(kernels::Words words, int value_bits) {
  return {.value_bits = value_bits,
          .counts = std::move(words.counts),
          .positions = std::move(words.positions),
          .codes = std::move(words.codes),
          .scales = std::move(words.scales)};
}

}  // namespace thinwire
