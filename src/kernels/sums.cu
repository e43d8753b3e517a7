// What runs over floats in their order on a device: a block for a range of them, whose loads all
// threads share, while the eight that own the sums do the adding.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/flat_twins.h"
#include "src/kernels/xxh3.cuh"
#include "thinwire/hash.h"

namespace thinwire::kernels {
namespace {

constexpr unsigned kAll = 0xffffffffu;
constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;

// ---- sum of squares: element i to sum i mod 8, in double

constexpr unsigned kSums = 8;
constexpr unsigned kChunk = 2048;  // floats of the range at a time, a multiple of 8

__device__ __forceinline__ void load_chunk(const float* from, std::size_t count, float* to,
                                           unsigned thread, unsigned threads) {
  for (unsigned i = thread; i < kChunk && i < count; i += threads) to[i] = from[i];
}

__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(const float* __restrict__ x, const ShardRange* __restrict__ ranges,
                       double* __restrict__ sums) {
  __shared__ float chunks[2][kChunk];
  __shared__ double partial[kSums];
  const float* const values = x + ranges[blockIdx.x].offset;
  const std::size_t size = ranges[blockIdx.x].size;
  const unsigned thread = threadIdx.x;
  double sum = 0.0;
  load_chunk(values, size, chunks[0], thread, kThreads);
  // While the first warp adds up one chunk, the others fetch the next.
  for (std::size_t at = 0, turn = 0; at < size; at += kChunk, ++turn) {
    __syncthreads();
    if (thread < kSums) {
      const float* const chunk = chunks[turn % 2];
      const unsigned count = static_cast<unsigned>(size - at < kChunk ? size - at : kChunk);
#pragma unroll 8
      for (unsigned i = thread; i < count; i += kSums) {
        const double wide = chunk[i];
        sum = __dadd_rn(sum, __dmul_rn(wide, wide));
      }
    } else if (thread >= kWarp && at + kChunk < size) {
      load_chunk(values + at + kChunk, size - at - kChunk, chunks[(turn + 1) % 2], thread - kWarp,
                 kThreads - kWarp);
    }
  }
  if (thread < kSums) partial[thread] = sum;
  __syncthreads();
  if (thread == 0) {
    const double* const s = partial;
    sums[blockIdx.x] = __dadd_rn(__dadd_rn(__dadd_rn(s[0], s[1]), __dadd_rn(s[2], s[3])),
                                 __dadd_rn(__dadd_rn(s[4], s[5]), __dadd_rn(s[6], s[7])));
  }
}

// ---- is every value a number?

__global__ void __launch_bounds__(kThreads)
    find_infinite_kernel(const float* __restrict__ x, std::size_t count, unsigned* found) {
  bool any = false;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    any = any || (__float_as_uint(x[i]) & 0x7fffffffu) >= 0x7f800000u;
  }
  if (__syncthreads_or(any) != 0 && threadIdx.x == 0) atomicOr(found, 1u);
}

// ---- hashes

constexpr unsigned kHashThreads = xxh3::kLanes * xxh3::kStripes;  // a thread for a word of a block
constexpr unsigned kHashWarps = kHashThreads / kWarp;
constexpr unsigned kHashBlocks = 8;  // between two barriers
constexpr unsigned kShortFloats = xxh3::kShortBytes / sizeof(float);

// Floats begin at multiples of four bytes.
__device__ __forceinline__ std::uint64_t word_at(const std::uint32_t* halves, std::size_t word) {
  return halves[2 * word] | std::uint64_t{halves[2 * word + 1]} << 32;
}

// What a word adds to the sum of `lane`: its product, and its neighbour as it is.
__device__ __forceinline__ std::uint64_t addend(std::uint64_t word, std::uint64_t secret) {
  return xxh3::product(word, secret) + __shfl_xor_sync(kAll, word, 1);
}

// Of block `block`, the first `stripes` stripes: what each warp's four of these add to the sums.
__device__ __forceinline__ void add_up_block(const std::uint32_t* values, std::size_t block,
                                             unsigned stripes, std::uint64_t secret,
                                             std::uint64_t (*by_warp)[xxh3::kLanes]) {
  const unsigned thread = threadIdx.x;
  const bool there = thread / xxh3::kLanes < stripes;
  const std::uint64_t word = there ? word_at(values, block * kHashThreads + thread) : 0;
  std::uint64_t sum = addend(word, secret);
  if (!there) sum = 0;
  sum += __shfl_xor_sync(kAll, sum, 8);
  sum += __shfl_xor_sync(kAll, sum, 16);
  if (thread % kWarp < xxh3::kLanes) by_warp[thread / kWarp][thread % kWarp] = sum;
}

// Two buffers, so that while the first eight threads scramble what one holds the other is filled.
struct HashSums {
  std::uint64_t of[2][kHashBlocks][kHashWarps][xxh3::kLanes];
};

__global__ void __launch_bounds__(kHashThreads)
    hash_kernel(const float* __restrict__ x, const ShardRange* __restrict__ ranges,
                std::uint64_t* __restrict__ hashes) {
  __shared__ HashSums sums;
  __shared__ std::uint64_t last[xxh3::kLanes];
  const ShardRange range = ranges[blockIdx.x];
  const auto* const values = reinterpret_cast<const std::uint32_t*>(x + range.offset);
  const std::size_t bytes = range.size * sizeof(float);
  const unsigned thread = threadIdx.x;
  const unsigned lane = thread % xxh3::kLanes;
  const std::uint64_t secret = xxh3::kSecret[thread / xxh3::kLanes + lane];
  const std::size_t whole = (bytes - 1) / xxh3::kBlockBytes;  // blocks that end in a scramble
  const unsigned rest = static_cast<unsigned>((bytes - 1) % xxh3::kBlockBytes / xxh3::kStripeBytes);
  std::uint64_t sum = xxh3::kFirstSums[lane];
  for (std::size_t first = 0, turn = 0; first <= whole; first += kHashBlocks, ++turn) {
    auto& buffer = sums.of[turn % 2];
    for (unsigned i = 0; i < kHashBlocks && first + i <= whole; ++i) {
      add_up_block(values, first + i, first + i < whole ? xxh3::kStripes : rest, secret, buffer[i]);
    }
    __syncthreads();
    if (thread >= xxh3::kLanes) continue;
    for (unsigned i = 0; i < kHashBlocks && first + i <= whole; ++i) {
      for (unsigned warp = 0; warp < kHashWarps; ++warp) sum += buffer[i][warp][lane];
      if (first + i < whole) sum = xxh3::scrambled(sum, lane);
    }
  }
  if (thread >= kWarp) return;
  // The last 64 bytes, which may overlap the stripes before.
  const std::uint32_t* const end = values + range.size - xxh3::kStripeBytes / 4;
  sum += addend(word_at(end, lane), xxh3::secret_at(xxh3::kLastSecret + 8 * lane));
  if (thread < xxh3::kLanes) last[lane] = sum;
  __syncwarp();
  if (thread == 0) hashes[blockIdx.x] = xxh3::merged(last, bytes);
}

// The floats of short ranges, one after another, for the host to hash.
__global__ void __launch_bounds__(64)
    gather_short_kernel(const float* __restrict__ x, const ShardRange* __restrict__ ranges,
                        float* __restrict__ gathered) {
  const ShardRange range = ranges[blockIdx.x];
  if (threadIdx.x < range.size) {
    gathered[std::size_t{blockIdx.x} * kShortFloats + threadIdx.x] = x[range.offset + threadIdx.x];
  }
}

unsigned blocks_of(std::span<const ShardRange> ranges) {
  return static_cast<unsigned>(ranges.size());
}

void hash_long(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes) {
  const device::Array<ShardRange> there(x.device(), ranges);
  const device::Array<std::uint64_t> results(x.device(), ranges.size());
  device::launch(x.device().index(), &hash_kernel, {blocks_of(ranges), kHashThreads}, x.data(),
                 there.get(), results.get());
  results.download(hashes);
}

void hash_short(ConstFloats x, std::span<const ShardRange> ranges,
                std::span<std::uint64_t> hashes) {
  const device::Array<ShardRange> there(x.device(), ranges);
  const device::Array<float> gathered(x.device(), ranges.size() * kShortFloats);
  device::launch(x.device().index(), &gather_short_kernel, {blocks_of(ranges), 64}, x.data(),
                 there.get(), gathered.get());
  std::vector<float> values(gathered.size());
  gathered.download(values);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    hashes[i] = hash64(ConstFloats(values).subspan(i * kShortFloats, ranges[i].size));
  }
}

}  // namespace

namespace twins {

void sum_squares(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums) {
  if (ranges.empty()) return;
  const device::Array<ShardRange> there(x.device(), ranges);
  const device::Array<double> results(x.device(), ranges.size());
  device::launch(x.device().index(), &sum_squares_kernel, {blocks_of(ranges), kThreads}, x.data(),
                 there.get(), results.get());
  results.download(sums);
}

bool all_finite(ConstFloats x) {
  if (x.empty()) return true;
  device::Array<unsigned> found(x.device(), 1);
  found.zero();
  device::launch(x.device().index(), &find_infinite_kernel, device::shape_for(x.size(), kThreads),
                 x.data(), x.size(), found.get());
  unsigned any = 0;
  found.download({&any, 1});
  return any == 0;
}

void hash(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes) {
  std::vector<ShardRange> parts[2];  // long ones, short ones
  std::vector<std::size_t> places[2];
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const int part = ranges[i].size > kShortFloats ? 0 : 1;
    parts[part].push_back(ranges[i]);
    places[part].push_back(i);
  }
  for (int part = 0; part < 2; ++part) {
    if (parts[part].empty()) continue;
    std::vector<std::uint64_t> found(parts[part].size());
    (part == 0 ? hash_long : hash_short)(x, parts[part], found);
    for (std::size_t i = 0; i < found.size(); ++i) hashes[places[part][i]] = found[i];
  }
}

}  // namespace twins
}  // namespace thinwire::kernels
