// The replicated inverse of what was said of a tile, a thread a column: inverse.cc with its sums in
// a thread's registers. For a row that has any coefficients the thread makes T of its column, and
// adds it, times the basis, to its 64 sums.
//
// B[u][63 - i] = +-B[u][i] in a DCT or Hadamard side of 64, so half of the products serve for both.
// Sums of integers have no order, so there the even and the odd half are added up by themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/device_tiles.h"
#include "src/kernels/tile.cuh"
#include "thinwire/kernels.h"
#include "thinwire/tile.h"

namespace thinwire::kernels {

constexpr int kHalfSide = kSide / 2;
constexpr int kVoteShift = 15;  // Q26 to Q11
constexpr std::int32_t kVoteRowMax = (1 << 14) - 1;
constexpr int kAmplitudeShift = 8;  // Q25 to Q17

// Said on the device. Of tile t the entries begin[t] - first .. begin[t + 1] - first.
template <class T>
struct SaidThere {
  const std::uint32_t* begin;
  std::uint32_t first;
  const std::uint16_t* positions;
  const T* values;  // or weights
};

// Side::rows or votes.
__device__ inline const float* table_of(const DeviceSides& sides, float) { return sides.rows; }
__device__ inline const std::int32_t* table_of(const DeviceSides& sides, std::int32_t) {
  return sides.votes;
}

__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline std::int32_t times(std::int32_t a, std::int32_t b) { return a * b; }
__device__ inline std::int32_t plus(std::int32_t a, std::int32_t b) { return a + b; }

__device__ inline float narrow(float sum) { return sum; }
__device__ inline std::int32_t narrow(std::int32_t sum) {
  return max(min((sum + (1 << (kVoteShift - 1))) >> kVoteShift, kVoteRowMax), -kVoteRowMax);
}

// Four neighbours of a table, in one load.
template <class T>
struct alignas(16) Four {
  T of[4];
};
template <class T>
__device__ __forceinline__ Four<T> four(const T* row, int quarter) {
  return reinterpret_cast<const Four<T>*>(row)[quarter];
}

template <class T>
__device__ __forceinline__ void add_row(const T* row, T term, T (&sums)[kSide]) {
#pragma unroll
  for (int q = 0; q < kSide / 4; ++q) {
    const Four<T> factors = four(row, q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[4 * q + i] = plus(sums[4 * q + i], times(factors.of[i], term));
    }
  }
}

// `odd`: the row's second half is the first with the other sign.
template <bool kOdd>
__device__ __forceinline__ void add_halves(const float* row, float term, float (&sums)[kSide]) {
#pragma unroll
  for (int q = 0; q < kHalfSide / 4; ++q) {
    const Four<float> factors = four(row, q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float product = __fmul_rn(factors.of[i], term);
      float& near = sums[4 * q + i];
      float& far = sums[kSide - 1 - (4 * q + i)];
      near = __fadd_rn(near, product);
      far = __fadd_rn(far, kOdd ? -product : product);
    }
  }
}
template <bool kOdd>
__device__ __forceinline__ void add_halves(const std::int32_t* row, std::int32_t term,
                                           std::int32_t (&sums)[kSide]) {
#pragma unroll
  for (int q = 0; q < kHalfSide / 4; ++q) {
    const Four<std::int32_t> factors = four(row, q);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * q + i;
      sums[kOdd ? kSide - 1 - at : at] += factors.of[i] * term;
    }
  }
}

__device__ inline void unfold(float (&)[kSide]) {}
__device__ inline void unfold(std::int32_t (&sums)[kSide]) {
#pragma unroll
  for (int i = 0; i < kHalfSide; ++i) {
    const std::int32_t even = sums[i];
    const std::int32_t odd = sums[kSide - 1 - i];
    sums[i] = even + odd;
    sums[kSide - 1 - i] = even - odd;
  }
}

// sums[i] = column threadIdx.x of the inverse.
template <class T>
__device__ __forceinline__ void inverse_column(const Tile& tile, const SaidThere<T>& said,
                                               const DeviceSides& sides, Basis basis,
                                               T (&sums)[kSide]) {
  const T* down = table_of(sides, T{}) + side_begin(tile.height);
  const T* across = table_of(sides, T{}) + side_begin(tile.width) + threadIdx.x;
  const bool mirrored = tile.height == kSideMax && basis != Basis::none;
  const auto width = static_cast<unsigned>(tile.width);
#pragma unroll
  for (int i = 0; i < kSide; ++i) sums[i] = T{0};
  unsigned entry = said.begin[blockIdx.x] - said.first;
  const unsigned end = said.begin[blockIdx.x + 1] - said.first;
  while (entry < end) {
    const unsigned u = said.positions[entry] / width;
    T term{0};
    for (; entry < end && said.positions[entry] < (u + 1) * width; ++entry) {
      const unsigned v = said.positions[entry] - u * width;
      term = plus(term, times(said.values[entry], across[v * kSide]));
    }
    term = narrow(term);
    const T* row = down + u * kSide;
    if (!mirrored) {
      add_row(row, term, sums);
    } else if ((basis == Basis::dct ? u : __popc(u)) % 2 == 1) {
      add_halves<true>(row, term, sums);
    } else {
      add_halves<false>(row, term, sums);
    }
  }
  if (mirrored) unfold(sums);
}

}  // namespace thinwire::kernels
