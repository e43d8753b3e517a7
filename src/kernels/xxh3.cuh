// XXH3 with 64 bits and seed 0 of more than 240 bytes, by its specification: eight sums go over
// stripes of 64 bytes, are scrambled after every 16 of these, and take the last 64 bytes in besides
// (doc/xxhash_spec.md of xxHash). What the stripes between two scrambles add has no order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"

namespace thinwire::kernels::xxh3 {

constexpr unsigned kLanes = 8;     // sums, and words of a stripe
constexpr unsigned kStripes = 16;  // from one scramble to the next
constexpr unsigned kStripeBytes = 64;
constexpr unsigned kBlockBytes = kStripes * kStripeBytes;
constexpr std::size_t kShortBytes = 240;  // up to here another algorithm serves

constexpr std::uint32_t kPrime32_1 = 0x9e3779b1u;
constexpr std::uint64_t kPrime64_1 = 0x9e3779b185ebca87u;
constexpr unsigned kScrambleSecret = 128;
constexpr unsigned kLastSecret = 121;
constexpr unsigned kMergeSecret = 11;

static __constant__ const std::uint64_t kSecret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

static __constant__ const std::uint64_t kFirstSums[kLanes] = {
    0xc2b2ae3d,         0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
    0x85ebca77c2b2ae63, 0x85ebca77,         0x27d4eb2f165667c5, 0x9e3779b1};

// Eight bytes of the secret, from any of its bytes on.
__device__ __forceinline__ std::uint64_t secret_at(unsigned byte) {
  const unsigned shift = byte % 8 * 8;
  const std::uint64_t low = kSecret[byte / 8] >> shift;
  return shift == 0 ? low : low | kSecret[byte / 8 + 1] << (64 - shift);
}

// What a word adds to its own sum; it is itself added to that of its neighbour (lane ^ 1).
__device__ __forceinline__ std::uint64_t product(std::uint64_t word, std::uint64_t secret) {
  const std::uint64_t key = word ^ secret;
  return (key & 0xffffffffu) * (key >> 32);
}

__device__ __forceinline__ std::uint64_t scrambled(std::uint64_t sum, unsigned lane) {
  return (sum ^ sum >> 47 ^ secret_at(kScrambleSecret + 8 * lane)) * kPrime32_1;
}

__device__ inline std::uint64_t merged(const std::uint64_t* sums, std::uint64_t bytes) {
  std::uint64_t hash = bytes * kPrime64_1;
  for (unsigned i = 0; i < kLanes; i += 2) {
    const std::uint64_t a = sums[i] ^ secret_at(kMergeSecret + 8 * i);
    const std::uint64_t b = sums[i + 1] ^ secret_at(kMergeSecret + 8 * i + 8);
    hash += a * b ^ __umul64hi(a, b);
  }
  hash ^= hash >> 37;
  hash *= 0x165667919e3779f9u;
  return hash ^ hash >> 32;
}

}  // namespace thinwire::kernels::xxh3
