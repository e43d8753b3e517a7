// The choice of the k largest coefficients of a tile that lies in shared memory: larger magnitude
// first, then lower index; never a zero. The result is a bit for each coefficient, so that the
// chosen come out in ascending order.
//
// As on the host the k-th largest of the 64 columns' maxima is a bound that at least k coefficients
// reach. What reaches it is ranked by comparing each with each; where that would be many, or k is
// above 64, the k-th largest magnitude is found bit by bit.
#pragma once

#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/tile.cuh"

namespace thinwire::kernels {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = ~0u;
constexpr int kMaskWords = kTileValues / kWarp;
constexpr unsigned kRanked = 256;  // at most so many are compared with each other

struct Selection {
  unsigned chosen[kMaskWords];  // coefficient p: bit p % 32 of word p / 32
  unsigned ties[kMaskWords];
  unsigned maxima[kTileThreads];
  unsigned bound;
  unsigned sums[kTileThreads / kWarp];
  unsigned magnitudes[kRanked];
  std::uint16_t places[kRanked];
};

// Bits of |x|, which order as the floats do.
__device__ inline unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

struct Share {
  unsigned before;  // of the threads before this one, together
  unsigned all;
};
// All threads of the block meet here, twice.
__device__ inline Share share_of(unsigned mine, Selection& s) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  unsigned sum = mine;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarp - 1) s.sums[warp] = sum;
  __syncthreads();
  const Share share{sum - mine + (warp == 1 ? s.sums[0] : 0u), s.sums[0] + s.sums[1]};
  __syncthreads();
  return share;
}

// A magnitude that at least k coefficients reach, and no zero does. `mine`: the largest of this
// thread's column.
__device__ inline unsigned bound_for(unsigned k, unsigned mine, Selection& s) {
  if (k > static_cast<unsigned>(kTileThreads)) return 1;
  s.maxima[threadIdx.x] = mine;
  __syncthreads();
  unsigned rank = 0;
#pragma unroll 8
  for (unsigned j = 0; j < static_cast<unsigned>(kTileThreads); ++j) {
    const unsigned other = s.maxima[j];
    rank += other > mine || (other == mine && j < threadIdx.x) ? 1 : 0;
  }
  if (rank == k - 1) s.bound = mine > 1 ? mine : 1;
  __syncthreads();
  return s.bound;
}

// Marks what reaches `least`, a warp half of the tile.
__device__ inline void mark(const float* tile, unsigned least, unsigned* words) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = static_cast<int>(threadIdx.x) / kWarp * (kMaskWords / 2);
  for (int begin = first; begin < first + kMaskWords / 2; begin += kWarp) {
    unsigned mine = 0;
#pragma unroll 8
    for (int i = 0; i < kWarp; ++i) {
      const float value = tile[place((begin + i) * kWarp + lane)];
      const unsigned bits = __ballot_sync(kAllLanes, magnitude(value) >= least);
      if (lane == i) mine = bits;
    }
    words[begin + lane] = mine;
  }
}

// The k-th largest magnitude.
__device__ inline unsigned kth_largest(const float* tile, unsigned k, Selection& s) {
  unsigned found = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const unsigned tried = found | 1u << bit;
    unsigned reaching = 0;
#pragma unroll 8
    for (int row = 0; row < kSide; ++row) {
      reaching += magnitude(tile[row * kPitch + static_cast<int>(threadIdx.x)]) >= tried ? 1 : 0;
    }
    if (share_of(reaching, s).all >= k) found = tried;
  }
  return found;
}

// A thread answers for two words of the mask.
__device__ inline unsigned* own_words(unsigned* words) { return words + 2 * threadIdx.x; }
__device__ inline unsigned count_own(unsigned* words) {
  return __popc(own_words(words)[0]) + __popc(own_words(words)[1]);
}

// visit(p) for each p that is marked in this thread's words, ascending.
template <class Visit>
__device__ inline void for_own(unsigned* words, const Visit& visit) {
  for (int w = 0; w < 2; ++w) {
    for (unsigned bits = own_words(words)[w]; bits != 0; bits &= bits - 1) {
      visit((2 * static_cast<int>(threadIdx.x) + w) * kWarp + __ffs(bits) - 1);
    }
  }
}

// Of the `count` that are marked, the first of which in this thread's words is number `before`.
__device__ inline void keep_by_rank(const float* tile, unsigned k, Share marked, Selection& s) {
  unsigned at = marked.before;
  for_own(s.chosen, [&](int p) {
    s.magnitudes[at] = magnitude(tile[place(p)]);
    s.places[at++] = static_cast<std::uint16_t>(p);
  });
  own_words(s.chosen)[0] = 0;
  own_words(s.chosen)[1] = 0;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < marked.all; i += kTileThreads) {
    const unsigned mine = s.magnitudes[i];
    unsigned rank = 0;
    for (unsigned j = 0; j < marked.all; ++j) {
      rank += s.magnitudes[j] + (j < i ? 1 : 0) > mine ? 1 : 0;
    }
    const unsigned p = s.places[i];
    if (rank < k) atomicOr(&s.chosen[p / kWarp], 1u << p % kWarp);
  }
  __syncthreads();
}

// All above the k-th largest, and of its equals the first.
__device__ inline void keep_by_threshold(const float* tile, unsigned k, Selection& s) {
  const unsigned least = kth_largest(tile, k, s);
  mark(tile, least + 1, s.chosen);
  mark(tile, least, s.ties);
  __syncthreads();
  own_words(s.ties)[0] &= ~own_words(s.chosen)[0];
  own_words(s.ties)[1] &= ~own_words(s.chosen)[1];
  const unsigned wanted = k - share_of(count_own(s.chosen), s).all;
  unsigned number = share_of(count_own(s.ties), s).before;
  for_own(s.ties, [&](int p) {
    if (number++ < wanted) s.chosen[p / kWarp] |= 1u << p % kWarp;
  });
}

// Fills s.chosen, of which each thread may read its own words, and says how many are marked there.
__device__ inline Share select(const float* tile, unsigned k, unsigned largest_of_column,
                               Selection& s) {
  mark(tile, bound_for(k, largest_of_column, s), s.chosen);
  __syncthreads();
  const Share marked = share_of(count_own(s.chosen), s);
  if (marked.all <= k) return marked;
  if (marked.all <= kRanked) {
    keep_by_rank(tile, k, marked, s);
  } else {
    keep_by_threshold(tile, k, s);
  }
  return share_of(count_own(s.chosen), s);
}

}  // namespace thinwire::kernels
