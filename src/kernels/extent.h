// Where the valid values of a tile lie, for src/kernels only.
#pragma once

#include <cstddef>

#include "thinwire/error.h"
#include "thinwire/shard.h"

namespace thinwire::kernels {

// Rows of the tile that hold any value.
inline std::size_t used_rows(const Tile& tile) { return tile.rows + (tile.tail > 0 ? 1 : 0); }

// Functions of one tile work on the host alone; tile_kernels.h has those for devices.
template <class... Spans>
void check_on_host(const Spans&... spans) {
  TW_CHECK((spans.on_host() && ...));
}

// The tile's values fit in it and lie within an array of `size` floats.
inline void check_extent(const Tile& tile, std::size_t size) {
  TW_CHECK(used_rows(tile) <= tile.height && tile.cols <= tile.width && tile.tail <= tile.cols);
  std::size_t end = tile.offset;
  if (tile.tail > 0) {
    end += tile.rows * tile.stride + tile.tail;
  } else if (tile.rows > 0) {
    end += (tile.rows - 1) * tile.stride + tile.cols;
  }
  TW_CHECK(end <= size);
}

}  // namespace thinwire::kernels
