// What the tile kernels find on a device besides the floats they are given. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/array.h"
#include "thinwire/kernels.h"
#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// Side::rows and Side::votes (basis.h) of the lengths 1 .. 64, one after another (side_begin).
struct DeviceSides {
  const float* rows = nullptr;
  const std::int32_t* votes = nullptr;
};
// Brought there when first asked for, 1 MB, and kept until the process ends. Any thread may ask.
DeviceSides device_sides(Device device, Basis basis);

// The tiles' own copy on the device, or one for as long as this lives.
class TilesThere {
 public:
  TilesThere(Tiles tiles, Device device);
  const Tile* get() const { return there_; }

 private:
  device::Array<Tile> copy_;
  const Tile* there_;
};

// Of so many tiles; a grid has no room for more than 2^31 - 1 of them.
unsigned blocks_for(Tiles tiles);
// Is any tile 64 x 64; is any not?
struct Sizes {
  bool full = false;
  bool other = false;
};
// Checks too that all values lie within `size` floats from `origin` on.
Sizes sizes_of(Tiles tiles, std::size_t origin, std::size_t size);

}  // namespace thinwire::kernels
