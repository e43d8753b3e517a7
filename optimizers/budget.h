// How many coefficients of a tile a number of bytes pays for.
#pragma once

#include <cmath>
#include <cstddef>

#include "thinwire/layout.h"

namespace thinwire {

// The first k, up to `most`, that one more would be too dear for: all tiles of a model as full
// tiles, k positions at their entropy and k values of `bits` each, take at most `bytes`; 0 if not
// even one does. What a site says is its own choice, so that the logarithms need not be the same
// everywhere.
inline int affordable(const Layout& layout, int most, int bits, double bytes) {
  double tiles = 0.0;
  for (const Block& block : layout.blocks()) {
    tiles += static_cast<double>(block.grid_rows() * block.grid_cols());
  }
  constexpr double kValues = kTileSide * kTileSide;
  double position_bits = 0.0;  // log2 of kValues over k
  for (int k = 0; k < most; ++k) {
    position_bits += std::log2((kValues - k) / (k + 1));
    if (tiles * (position_bits + (k + 1.0) * bits) > 8.0 * bytes) return k;
  }
  return most;
}

}  // namespace thinwire
