// What a block of 64 threads, one a column, knows of its tile. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/basis.h"
#include "thinwire/shard.h"

namespace thinwire::kernels {

constexpr int kSide = static_cast<int>(kSideMax);
constexpr int kTileThreads = kSide;
constexpr int kTileValues = kSide * kSide;
// Rows in shared memory are 65 floats apart, so that a warp reads a row or a column of them from 32
// different banks.
constexpr int kPitch = kSide + 1;
constexpr int kTileFloats = kSide * kPitch;

// Where coefficient p of a tile lies in shared memory, whatever the tile's width.
__device__ inline int place(int p) { return p / kSide * kPitch + p % kSide; }

__device__ inline bool is_full(const Tile& tile) {
  return tile.height == kSideMax && tile.width == kSideMax;
}

// Valid values at the top of a column.
__device__ inline int valid_rows(const Tile& tile, int column) {
  const auto at = static_cast<std::size_t>(column);
  if (at < tile.tail) return static_cast<int>(tile.rows) + 1;
  return at < tile.cols ? static_cast<int>(tile.rows) : 0;
}

// Valid values at the left of a row.
__device__ inline int valid_columns(const Tile& tile, int row) {
  const auto at = static_cast<std::size_t>(row);
  return static_cast<int>(at < tile.rows ? tile.cols : at == tile.rows ? tile.tail : 0);
}

// Of side n in the tables of device_tiles.h.
__device__ inline std::size_t side_begin(std::size_t n) { return kSideMax * (n * (n - 1) / 2); }

}  // namespace thinwire::kernels
