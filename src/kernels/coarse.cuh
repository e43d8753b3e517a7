// Whole tiles in a few bits. A block works on a tile, whose values lie in shared memory as they lie
// in the tile, zeros in the padding. What is said leaves as planes of bits: of 32 positions at a
// time a word for each bit of a code, position p its bit p % 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/tile.cuh"
#include "thinwire/coarse.h"

namespace thinwire::kernels {

constexpr unsigned kCoarseThreads = 128;
constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = ~0u;
constexpr unsigned kGroups = kTileValues / kWarp;  // of positions, in a tile
constexpr unsigned kInfinity = 0x7f800000u;
constexpr std::size_t kNowhere = ~std::size_t{0};

// Where the value of that position lies.
__device__ __forceinline__ std::size_t value_at(const Tile& tile, unsigned position) {
  const unsigned width = static_cast<unsigned>(tile.width);
  const unsigned row = position / width;
  const unsigned col = position % width;
  if (static_cast<int>(col) >= valid_columns(tile, static_cast<int>(row))) return kNowhere;
  return tile.offset + row * tile.stride + col;
}

// Positions of the rows that hold any value.
__device__ __forceinline__ unsigned used_positions(const Tile& tile) {
  return static_cast<unsigned>((tile.rows + (tile.tail > 0 ? 1 : 0)) * tile.width);
}

// The codes of a warp's 32 positions.
__device__ __forceinline__ void store_planes(unsigned code, unsigned bits, unsigned* planes) {
  const unsigned lane = threadIdx.x % kWarp;
  unsigned mine = 0;
  for (unsigned bit = 0; bit < bits; ++bit) {
    const unsigned plane = __ballot_sync(kAllLanes, code >> bit & 1u);
    if (lane == bit) mine = plane;
  }
  if (lane < bits) planes[lane] = mine;
}

// Largest bits of a magnitude among the tile's values, which go to shared memory.
__device__ inline unsigned load(const Tile& tile, const float* values, float* to) {
  unsigned largest = 0;
  for (unsigned p = threadIdx.x; p < used_positions(tile); p += kCoarseThreads) {
    const std::size_t at = value_at(tile, p);
    const float value = at == kNowhere ? 0.0f : values[at];
    const unsigned size = __float_as_uint(value) & 0x7fffffffu;
    to[p] = value;
    largest = largest > size ? largest : size;
  }
  return largest;
}

// The mean magnitude, by one thread: a sum in order. Zeros of the padding leave it as it is.
__device__ inline float mean_magnitude(const Tile& tile, const float* of_tile) {
  const unsigned positions = used_positions(tile);
  double sum = 0.0;
#pragma unroll 8
  for (unsigned p = 0; p < positions; ++p) sum = __dadd_rn(sum, double{fabsf(of_tile[p])});
  const auto values = static_cast<double>(tile.rows * tile.cols + tile.tail);
  return __double2float_rn(__ddiv_rn(sum, values));
}

static __global__ void __launch_bounds__(kCoarseThreads)
    say_coarse_kernel(const Tile* __restrict__ tiles, Coarse coarse, unsigned bits, float* values,
                      unsigned* __restrict__ planes, float* __restrict__ scales) {
  __shared__ float of_tile[kTileValues];
  __shared__ unsigned largest;
  __shared__ float scale;
  const Tile tile = tiles[blockIdx.x];
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const unsigned mine = __reduce_max_sync(kAllLanes, load(tile, values, of_tile));
  if (threadIdx.x % kWarp == 0) atomicMax(&largest, mine);
  __syncthreads();
  const bool finite = largest < kInfinity;
  if (threadIdx.x == 0) {
    scale = __uint_as_float(largest);  // not finite: nothing is said
    const bool mean = coarse == Coarse::sign || coarse == Coarse::two_bit;
    if (finite && mean) scale = mean_magnitude(tile, of_tile);
    scales[blockIdx.x] = scale;
  }
  __syncthreads();
  for (unsigned first = threadIdx.x / kWarp * kWarp; first < used_positions(tile);
       first += kCoarseThreads) {
    const unsigned p = first + threadIdx.x % kWarp;
    const std::size_t at = p < used_positions(tile) ? value_at(tile, p) : kNowhere;
    const float value = at == kNowhere ? 0.0f : of_tile[p];
    const unsigned code = encode(coarse, value, scale);
    if (at != kNowhere) {
      values[at] = finite ? __fsub_rn(value, decode(coarse, code, scale)) : 0.0f;
    }
    const std::size_t group = std::size_t{blockIdx.x} * kGroups + first / kWarp;
    store_planes(code, bits, planes + group * bits);
  }
}

// Two bits a position: is anything said, and is it a minus.
static __global__ void __launch_bounds__(kCoarseThreads)
    say_signs_kernel(const Tile* __restrict__ tiles, const float* __restrict__ values,
                     unsigned* __restrict__ planes) {
  const Tile tile = tiles[blockIdx.x];
  for (unsigned first = threadIdx.x / kWarp * kWarp; first < used_positions(tile);
       first += kCoarseThreads) {
    const unsigned p = first + threadIdx.x % kWarp;
    const std::size_t at = p < used_positions(tile) ? value_at(tile, p) : kNowhere;
    const float value = at == kNowhere ? 0.0f : values[at];
    const unsigned said = value == 0.0f ? 0u : 1u;
    const std::size_t group = std::size_t{blockIdx.x} * kGroups + first / kWarp;
    store_planes(said | (__float_as_uint(value) >> 31) << 1, 2, planes + group * 2);
  }
}

// Positions within a tile differ, so nothing meets.
static __global__ void __launch_bounds__(kCoarseThreads)
    add_coarse_kernel(const Tile* __restrict__ tiles, Coarse coarse,
                      const std::uint32_t* __restrict__ begin, const float* __restrict__ scales,
                      const std::uint16_t* __restrict__ positions,
                      const std::uint32_t* __restrict__ codes, float* into) {
  const Tile tile = tiles[blockIdx.x];
  const float scale = scales[blockIdx.x];
  for (unsigned i = begin[blockIdx.x] + threadIdx.x; i < begin[blockIdx.x + 1];
       i += kCoarseThreads) {
    const std::size_t at = value_at(tile, positions[i]);
    if (at != kNowhere) into[at] = __fadd_rn(into[at], decode(coarse, codes[i], scale));
  }
}

}  // namespace thinwire::kernels
