// The fast inverse of what a site still owes of a tile, for .cu files.
#pragma once

#include <cstddef>

#include "src/device/launch.cuh"
#include "src/kernels/dct.cuh"
#include "src/kernels/tile.cuh"
#include "thinwire/kernels.h"
#include "thinwire/tile.h"

namespace thinwire::kernels {

struct ListsThere {
  const float* floats;  // of the first tile's list
  std::size_t stride;
  std::size_t k;
};

struct OwedTask {
  const Tile* tiles;
  const float* residual;
  const ListsThere* lists;
  std::size_t lists_count;
  std::size_t origin;
  float* z;
  double* squares;  // a tile
};

// Adds the entries of a list, up to the first value of 0, to the tile's coefficients in shared
// memory. Two of a list, which only a broken file has, may name the same place.
__device__ inline void add_list(const float* list, std::size_t k, int coefficients, float* tile,
                                unsigned (&ends)[2]) {
  const unsigned t = threadIdx.x;
  for (std::size_t begin = 0; begin < k; begin += kTileThreads) {
    const std::size_t entry = begin + t;
    const float value = entry < k ? list[k + entry] : 0.0f;
    const unsigned zeros = __ballot_sync(~0u, value == 0.0f);
    if (t % 32 == 0) ends[t / 32] = zeros;
    __syncthreads();
    const unsigned first = ends[0] != 0   ? __ffs(ends[0]) - 1
                           : ends[1] != 0 ? 32 + __ffs(ends[1]) - 1
                                          : kTileThreads;
    if (t < first) {
      const float position = list[entry];
      if (position >= 0.0f && position < static_cast<float>(coefficients)) {
        atomicAdd(&tile[place(static_cast<int>(position))], value);
      }
    }
    __syncthreads();
    if (first < kTileThreads) return;
  }
}

// The tile's coefficients and what was said of them, in shared memory, one after another.
__device__ inline void gather_owed(const OwedTask& task, const Tile& where, float* tile,
                                   unsigned (&ends)[2]) {
  const int coefficients = static_cast<int>(where.height * where.width);
  const float* residual = task.residual + where.coefficients;
#pragma unroll 16
  for (int p = static_cast<int>(threadIdx.x); p < kTileValues; p += kTileThreads) {
    tile[place(p)] = p < coefficients ? residual[p] : 0.0f;
  }
  __syncthreads();
  for (std::size_t i = 0; i < task.lists_count; ++i) {
    const ListsThere& lists = task.lists[i];
    add_list(lists.floats + blockIdx.x * lists.stride, lists.k, coefficients, tile, ends);
  }
}

// sum_squares of kernels.h, of a row.
__device__ inline double row_squares(const float* row, int count) {
  double sums[8] = {};
  for (int i = 0; i < count; i += 8) {
#pragma unroll
    for (int part = 0; part < 8; ++part) {
      const double wide = i + part < count ? row[i + part] : 0.0f;
      sums[part] = __dadd_rn(sums[part], __dmul_rn(wide, wide));
    }
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Of the tile's valid values in shared memory: a thread a row, then the rows in order.
__device__ inline void tile_squares(const Tile& where, const float* tile, double* rows,
                                    double* squares) {
  const int t = static_cast<int>(threadIdx.x);
  rows[t] = row_squares(tile + t * kPitch, valid_columns(where, t));
  __syncthreads();
  if (t != 0) return;
  double sum = 0.0;
  for (int row = 0; row < kSide; ++row) sum += rows[row];
  squares[blockIdx.x] = sum;
}

__device__ inline void store_column(const Tile& where, std::size_t origin, const float* tile,
                                    float* z) {
  const int t = static_cast<int>(threadIdx.x);
  float* to = z + (where.offset - origin) + t;
  const int rows = valid_rows(where, t);
#pragma unroll 16
  for (int i = 0; i < kSide; ++i) {
    if (i < rows) to[i * where.stride] = tile[i * kPitch + t];
  }
}

template <Basis kBasis>
__global__ void __launch_bounds__(kTileThreads, 8) owed_full(Factors factors, OwedTask task) {
  __shared__ float tile[kTileFloats];
  __shared__ double rows[kSide];
  __shared__ unsigned ends[2];
  const Tile& where = task.tiles[blockIdx.x];
  if (!is_full(where)) return;
  gather_owed(task, where, tile, ends);
  const int t = static_cast<int>(threadIdx.x);
  float x[kSide];
#pragma unroll
  for (int i = 0; i < kSide; ++i) x[i] = tile[i * kPitch + t];
  restore_line<kBasis>(factors, x);
#pragma unroll
  for (int i = 0; i < kSide; ++i) tile[i * kPitch + t] = x[i];
  __syncthreads();
  if constexpr (kBasis != Basis::none) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) x[i] = tile[t * kPitch + i];
    restore_line<kBasis>(factors, x);
#pragma unroll
    for (int i = 0; i < kSide; ++i) tile[t * kPitch + i] = x[i];
    __syncthreads();
  }
  store_column(where, task.origin, tile, task.z);
  tile_squares(where, tile, rows, task.squares);
}

// sum over u of basis[u][i] x[u]
__device__ inline float dot_down(const float* basis, const float* x, int step, int count) {
  float sum = 0.0f;
  for (int u = 0; u < count; ++u) sum = __fmaf_rn(basis[u * kSide], x[u * step], sum);
  return sum;
}

// Tiles of other sides, by products with the basis if there is one.
template <bool kHasBasis>
__global__ void __launch_bounds__(kTileThreads)
    owed_other(const float* rows_of_sides, OwedTask task) {
  __shared__ float tile[kTileFloats];
  __shared__ float half[kTileFloats];
  __shared__ double rows[kSide];
  __shared__ unsigned ends[2];
  const Tile& where = task.tiles[blockIdx.x];
  if (is_full(where)) return;
  gather_owed(task, where, tile, ends);
  const int t = static_cast<int>(threadIdx.x);
  const int height = static_cast<int>(where.height);
  const int width = static_cast<int>(where.width);
  const float* down = rows_of_sides + side_begin(where.height);
  const float* across = rows_of_sides + side_begin(where.width);
  for (int u = 0; t < width && u < height; ++u) {  // along the rows
    float sum = kHasBasis ? 0.0f : tile[place(u * width + t)];
    for (int v = 0; kHasBasis && v < width; ++v) {
      sum = __fmaf_rn(across[v * kSide + t], tile[place(u * width + v)], sum);
    }
    half[u * kPitch + t] = sum;
  }
  __syncthreads();
  for (int i = 0; t < width && i < height; ++i) {
    tile[i * kPitch + t] =
        kHasBasis ? dot_down(down + i, half + t, kPitch, height) : half[i * kPitch + t];
  }
  __syncthreads();
  store_column(where, task.origin, tile, task.z);
  tile_squares(where, tile, rows, task.squares);
}

}  // namespace thinwire::kernels
