// What the kernel tests share: tiles, random values, and the transforms in double by the
// definition.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "thinwire/kernels.h"

namespace thinwire::testing_support {

inline std::vector<float> normal_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

inline double basis_entry(std::size_t n, std::size_t u, std::size_t i) {
  const double norm = std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(n));
  return norm * std::cos(std::numbers::pi * static_cast<double>((2 * i + 1) * u) /
                         static_cast<double>(2 * n));
}

// out = D(h) in D(w)^T, or with the transposed matrices for the inverse.
inline std::vector<double> exact_transform(std::size_t height, std::size_t width,
                                           const std::vector<float>& in, bool inverse = false) {
  const auto entry = [inverse](std::size_t n, std::size_t to, std::size_t from) {
    return inverse ? basis_entry(n, from, to) : basis_entry(n, to, from);
  };
  std::vector<double> half(height * width);
  std::vector<double> out(height * width);
  for (std::size_t v = 0; v < width; ++v) {
    for (std::size_t j = 0; j < width; ++j) {
      const double factor = entry(width, v, j);
      for (std::size_t i = 0; i < height; ++i) half[i * width + v] += factor * in[i * width + j];
    }
  }
  for (std::size_t u = 0; u < height; ++u) {
    for (std::size_t i = 0; i < height; ++i) {
      const double factor = entry(height, u, i);
      for (std::size_t v = 0; v < width; ++v) out[u * width + v] += factor * half[i * width + v];
    }
  }
  return out;
}

// A tile alone in its array.
inline Tile whole_tile(std::size_t height, std::size_t width) {
  return {.offset = 0,
          .stride = width,
          .rows = height,
          .cols = width,
          .tail = 0,
          .height = height,
          .width = width,
          .coefficients = 0};
}

// Values only where the tile is valid, zeros elsewhere; height x width.
inline std::vector<float> padded_values(const Tile& tile, const std::vector<float>& values) {
  std::vector<float> padded(tile.height * tile.width);
  for (std::size_t i = 0; i <= tile.rows; ++i) {
    const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
    for (std::size_t j = 0; j < count; ++j)
      padded[i * tile.width + j] = values[tile.offset + i * tile.stride + j];
  }
  return padded;
}

// A full tile in a wide matrix, edges to the right, below and in the corner, a pool's last tile, a
// pool shorter than a row, and sides of the divisor rule.
inline std::vector<Tile> sample_tiles() {
  return {
      {.offset = 64, .stride = 200, .rows = 64, .cols = 64, .height = 64, .width = 64},
      {.offset = 192, .stride = 200, .rows = 64, .cols = 8, .height = 64, .width = 64},
      {.offset = 0, .stride = 200, .rows = 5, .cols = 64, .height = 64, .width = 64},
      {.offset = 17, .stride = 77, .rows = 9, .cols = 13, .height = 64, .width = 64},
      {.offset = 3, .stride = 64, .rows = 7, .cols = 64, .tail = 29, .height = 64, .width = 64},
      {.offset = 3, .stride = 64, .rows = 0, .cols = 64, .tail = 1, .height = 64, .width = 64},
      {.offset = 48, .stride = 96, .rows = 32, .cols = 48, .height = 32, .width = 48},
      {.offset = 13, .stride = 7, .rows = 13, .cols = 7, .height = 13, .width = 7},
      {.offset = 26, .stride = 26, .rows = 1, .cols = 26, .height = 1, .width = 26},
      {.offset = 5, .stride = 1, .rows = 1, .cols = 1, .height = 1, .width = 1},
      {.offset = 0, .stride = 33, .rows = 61, .cols = 33, .height = 61, .width = 33},
  };
}
inline constexpr std::size_t kSampleValues = 200 * 70;

// `set` different positions, ascending.
inline std::vector<std::uint16_t> some_positions(std::size_t coefficients, std::size_t set,
                                                 unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::uint16_t> positions;
  for (std::size_t p = 0; p < coefficients; ++p) {
    const std::size_t left = coefficients - p;
    if (engine() % left < set - positions.size()) {
      positions.push_back(static_cast<std::uint16_t>(p));
    }
  }
  return positions;
}

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace thinwire::testing_support
