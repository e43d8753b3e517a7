// Numbers for tests that are equal everywhere: a hash of a counter.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire::test {

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1).
inline float noise(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(mix(mix(seed) ^ index) >> 40) * 0x1p-23f - 1.0f;
}

inline std::vector<float> noise_vector(std::uint64_t seed, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = noise(seed, i);
  return values;
}

}  // namespace thinwire::test
