// Tiles of a shard as kernels see them. Values.
#pragma once

#include <cstddef>
#include <span>

namespace thinwire {

// One tile of the shard: `rows` full rows of `cols` values, `stride` apart, then one row of `tail`
// values (only in the last tile of a pool). The transform works on height x width, zeros beyond.
struct Tile {
  std::size_t offset = 0;  // of its first value in params() and grad()
  std::size_t stride = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t tail = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t coefficients = 0;  // offset of its height * width floats in a `coefficients` state
};

// Tiles one after another, and their copy where kernels on the shard's device find it.
struct Tiles : std::span<const Tile> {
  Tiles() = default;
  Tiles(std::span<const Tile> tiles, const Tile* there = nullptr)  // NOLINT: tiles of the host
      : std::span<const Tile>(tiles), on_device(there) {}
  Tiles some(std::size_t first, std::size_t count) const {
    return {subspan(first, count), on_device == nullptr ? nullptr : on_device + first};
  }
  const Tile* on_device = nullptr;
};

}  // namespace thinwire
