// The kernels of extract: one block a tile, which reads the values once, the residual once and
// writes it once. What the pointers are is a parameter, so that a test can count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/dct.cuh"
#include "src/kernels/device_tiles.h"
#include "src/kernels/select.cuh"
#include "src/kernels/tile.cuh"
#include "thinwire/kernels.h"
#include "thinwire/tile.h"

namespace thinwire::kernels {

template <class T>
using PlainPointer = T*;

template <template <class> class Pointer>
struct ExtractTask {
  const Tile* tiles;
  Pointer<const float> values;
  std::size_t origin;
  Pointer<float> residual;
  float decay;
  float scale;
  float subtract;
  unsigned k;
  Pointer<float> lists;  // of the first tile
  std::size_t lists_stride;
  std::size_t lists_k;
  Pointer<std::uint16_t> counts;
  Pointer<std::uint16_t> positions;  // k a tile
  Pointer<float> chosen;             // k a tile
};

constexpr int kBatch = 16;  // loads that a thread has under way at once

// Says what is chosen, and takes it from the tile.
template <template <class> class Pointer>
__device__ inline void say(const ExtractTask<Pointer>& task, std::size_t index, Share share,
                           float* tile, Selection& s) {
  const Pointer<float> list = task.lists + index * task.lists_stride;
  std::size_t at = share.before;
  for_own(s.chosen, [&](int p) {
    const float value = tile[place(p)];
    const float taken = __fmul_rn(task.subtract, value);
    tile[place(p)] = __fadd_rn(value, -taken);
    task.positions[index * task.k + at] = static_cast<std::uint16_t>(p);
    task.chosen[index * task.k + at] = value;
    list[at] = static_cast<float>(p);
    list[task.lists_k + at] = taken;
    ++at;
  });
  if (threadIdx.x != 0) return;
  task.counts[index] = static_cast<std::uint16_t>(share.all);
  if (share.all < task.lists_k) list[task.lists_k + share.all] = 0.0f;
}

// x = this thread's column of the tile, zeros where it is padded.
template <template <class> class Pointer>
__device__ __forceinline__ void load_column(const ExtractTask<Pointer>& task, const Tile& tile,
                                            float (&x)[kSide]) {
  Pointer<const float> from = task.values + (tile.offset - task.origin + threadIdx.x);
  const int rows = valid_rows(tile, static_cast<int>(threadIdx.x));
  const std::size_t step = kBatch * tile.stride;
#pragma unroll
  for (int begin = 0; begin < kSide; begin += kBatch, from = from + step) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      x[begin + i] = begin + i < rows ? from[i * tile.stride] : 0.0f;
    }
    __syncwarp();  // waits for no load, but keeps the compiler from 64 addresses at once
  }
}

// T of a tile of 64 x 64: down the columns from registers, then along the rows.
template <Basis kBasis>
__device__ __forceinline__ void transform_tile(const Factors& factors, float (&x)[kSide],
                                               float* tile) {
  const int t = static_cast<int>(threadIdx.x);
  transform_line<kBasis>(factors, x);
#pragma unroll
  for (int i = 0; i < kSide; ++i) tile[i * kPitch + t] = x[i];
  if constexpr (kBasis == Basis::none) return;  // its column is all that a thread needs
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSide; ++i) x[i] = tile[t * kPitch + i];
  transform_line<kBasis>(factors, x);
#pragma unroll
  for (int i = 0; i < kSide; ++i) tile[t * kPitch + i] = x[i];
  __syncthreads();
}

// R = decay R + scale T down this thread's column; returns its largest magnitude.
template <template <class> class Pointer>
__device__ __forceinline__ unsigned fold_column(const ExtractTask<Pointer>& task,
                                                const Pointer<float>& residual, float* tile) {
  const int t = static_cast<int>(threadIdx.x);
  unsigned largest = 0;
#pragma unroll
  for (int begin = 0; begin < kSide; begin += kBatch) {
    float old[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) old[i] = residual[(begin + i) * kSide + t];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float& here = tile[(begin + i) * kPitch + t];
      here = __fmaf_rn(task.scale, here, __fmul_rn(task.decay, old[i]));
      largest = max(largest, magnitude(here));
    }
  }
  return largest;
}

template <Basis kBasis, template <class> class Pointer>
__global__ void __launch_bounds__(kTileThreads, 8)
    extract_full(Factors factors, ExtractTask<Pointer> task) {
  __shared__ float tile[kTileFloats];
  __shared__ Selection selection;
  const Tile& where = task.tiles[blockIdx.x];
  if (!is_full(where)) return;
  {
    float x[kSide];
    load_column(task, where, x);
    transform_tile<kBasis>(factors, x, tile);
  }
  const Pointer<float> residual = task.residual + where.coefficients;
  const unsigned largest = fold_column<Pointer>(task, residual, tile);
  __syncthreads();
  const Share share = select(tile, task.k, largest, selection);
  say(task, blockIdx.x, share, tile, selection);
  __syncthreads();
  const int t = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kSide; ++i) residual[i * kSide + t] = tile[i * kPitch + t];
}

// sum over i of basis[i] x[i]
__device__ inline float dot(const float* basis, const float* x, int step, int count) {
  float sum = 0.0f;
  for (int i = 0; i < count; ++i) sum = __fmaf_rn(basis[i], x[i * step], sum);
  return sum;
}

// Tiles of other sides, by products with the basis; their coefficients lie in `tile` one after
// another.
template <template <class> class Pointer>
__global__ void __launch_bounds__(kTileThreads)
    extract_other(const float* rows, Basis basis, ExtractTask<Pointer> task) {
  __shared__ float tile[kTileFloats];
  __shared__ float half[kTileFloats];
  __shared__ Selection selection;
  const Tile& where = task.tiles[blockIdx.x];
  if (is_full(where)) return;
  const int t = static_cast<int>(threadIdx.x);
  const int height = static_cast<int>(where.height);
  const int width = static_cast<int>(where.width);
  const float* down = rows + side_begin(where.height);
  const float* across = rows + side_begin(where.width);
  {
    const Pointer<const float> from = task.values + (where.offset - task.origin + t);
    const int valid = valid_rows(where, t);
    for (int i = 0; i < kSide; ++i) {
      tile[i * kPitch + t] = i < valid ? from[i * where.stride] : 0.0f;
    }
  }
  for (int u = 0; u < height; ++u) {
    half[u * kPitch + t] = basis == Basis::none ? tile[u * kPitch + t]
                                                : dot(down + u * kSide, tile + t, kPitch, height);
  }
  __syncthreads();
  for (int i = 0; i < kSide; ++i) tile[i * kPitch + t] = 0.0f;
  __syncthreads();
  const Pointer<float> residual = task.residual + where.coefficients;
  for (int u = 0; t < width && u < height; ++u) {
    const float* row = half + u * kPitch;
    const float made = basis == Basis::none ? row[t] : dot(across + t * kSide, row, 1, width);
    const int p = u * width + t;
    tile[place(p)] = __fmaf_rn(task.scale, made, __fmul_rn(task.decay, residual[p]));
  }
  __syncthreads();
  unsigned largest = 0;
  for (int i = 0; i < kSide; ++i) largest = max(largest, magnitude(tile[i * kPitch + t]));
  const Share share = select(tile, task.k, largest, selection);
  say(task, blockIdx.x, share, tile, selection);
  __syncthreads();
  for (int p = t; p < height * width; p += kTileThreads) residual[p] = tile[place(p)];
}

}  // namespace thinwire::kernels
