// Random bits as a function of a seed and two counters: no state, equal on every machine, and any
// value can be had without those before it. Not for secrets. Safe from any thread.
#pragma once

#include <cstdint>

namespace thinwire {

// Every bit of the result depends on every bit of x, and no two x share a result.
inline std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  const std::uint64_t inner = scramble(scramble(seed + 0x9e3779b97f4a7c15u) + stream);
  return scramble(inner + 0x9e3779b97f4a7c15u * (counter + 1));
}

// A standard normal number to three decimals: the sum of twelve 16-bit uniforms, less its mean,
// over its deviation of 65536. Integers only, hence exact; it never leaves [-6, 6].
inline float random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  std::int32_t sum = 0;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    std::uint64_t bits = random_bits(seed, stream, counter * 3 + draw);
    for (int quarter = 0; quarter < 4; ++quarter, bits >>= 16) sum += bits & 0xffff;
  }
  return static_cast<float>(sum - 6 * 65535) / 65536.0f;
}

}  // namespace thinwire
