// The replicated inverse of float coefficients: right, sparse as dense, and equal on every SIMD
// target.
#include <gtest/gtest.h>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::bits_of;
using testing_support::exact_transform;
using testing_support::for_each_target;
using testing_support::kSampleValues;
using testing_support::normal_floats;
using testing_support::sample_tiles;
using testing_support::some_positions;
using testing_support::whole_tile;

constexpr float kUntouched = 77.0f;

std::vector<float> decoded(const Tile& tile, const std::vector<std::uint16_t>& positions,
                           const std::vector<float>& values) {
  std::vector<float> direction(kSampleValues, kUntouched);
  kernels::inverse_sparse(tile, {.positions = positions, .values = values}, direction);
  return direction;
}

std::vector<float> scattered(const Tile& tile, const std::vector<std::uint16_t>& positions,
                             const std::vector<float>& values) {
  std::vector<float> dense(tile.height * tile.width, 0.0f);
  for (std::size_t i = 0; i < positions.size(); ++i) dense[positions[i]] = values[i];
  return dense;
}

TEST(InverseSparse, WritesTheInverseToTheValidValuesAndNothingElse) {
  for (const Tile& tile : sample_tiles()) {
    const std::size_t size = tile.height * tile.width;
    const auto positions = some_positions(size, std::min<std::size_t>(24, size), 1);
    const auto values = normal_floats(positions.size(), 2);
    const auto exact =
        exact_transform(tile.height, tile.width, scattered(tile, positions, values), true);
    std::vector<double> expected(kSampleValues, kUntouched);
    for (std::size_t i = 0; i <= tile.rows; ++i) {
      const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
      for (std::size_t j = 0; j < count; ++j)
        expected[tile.offset + i * tile.stride + j] = exact[i * tile.width + j];
    }
    const auto direction = decoded(tile, positions, values);
    for (std::size_t i = 0; i < kSampleValues; ++i) ASSERT_NEAR(direction[i], expected[i], 1e-6);
  }
}

TEST(InverseSparse, OfNothingIsZero) {
  const Tile tile = sample_tiles()[4];
  const auto direction = decoded(tile, {}, {});
  EXPECT_EQ(direction[tile.offset - 1], kUntouched);
  EXPECT_EQ(direction[tile.offset], 0.0f);
  EXPECT_EQ(direction[tile.offset + 7 * 64 + 28], 0.0f);
  EXPECT_EQ(direction[tile.offset + 7 * 64 + 29], kUntouched);
}

TEST(InverseSparse, HasTheBitsOfTheDenseInverse) {
  for (const auto& [height, width] : {std::pair{64, 64}, {32, 48}, {13, 7}, {1, 26}, {64, 3}}) {
    const Tile tile = whole_tile(height, width);
    const std::size_t size = tile.height * tile.width;
    const auto positions = some_positions(size, size / 3, 3);
    const auto values = normal_floats(positions.size(), 4);
    auto direction = decoded(tile, positions, values);
    direction.resize(size);
    std::vector<float> dense(size);
    kernels::inverse_dct(height, width, scattered(tile, positions, values), dense);
    EXPECT_EQ(bits_of(direction), bits_of(dense));
  }
}

// By the definition in floats, one rounding for each product and each sum, in ascending order.
std::vector<float> float_by_float(const std::vector<float>& in, const std::vector<float>& basis) {
  std::vector<float> rows(64 * 64, 0.0f);
  std::vector<float> out(64 * 64, 0.0f);
  for (int u = 0; u < 64; ++u) {
    for (int j = 0; j < 64; ++j) {
      volatile float sum = 0.0f;
      for (int v = 0; v < 64; ++v) {
        volatile float product = in[u * 64 + v] * basis[v * 64 + j];
        sum = sum + product;
      }
      rows[u * 64 + j] = sum;
    }
  }
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      volatile float sum = 0.0f;
      for (int u = 0; u < 64; ++u) {
        volatile float product = basis[u * 64 + i] * rows[u * 64 + j];
        sum = sum + product;
      }
      out[i * 64 + j] = sum;
    }
  }
  return out;
}

TEST(InverseDct, RoundsEveryProductAndSumOnItsOwnInAscendingOrder) {
  std::vector<float> basis;  // row u: the inverse of unit coefficient u
  for (std::size_t u = 0; u < 64; ++u) {
    std::vector<float> unit(64, 0.0f);
    std::vector<float> row(64);
    unit[u] = 1.0f;
    kernels::inverse_dct(1, 64, unit, row);
    basis.insert(basis.end(), row.begin(), row.end());
  }
  const auto in = normal_floats(64 * 64, 10);
  const auto expected = float_by_float(in, basis);
  for_each_target([&](const std::string& target) {
    std::vector<float> out(in.size());
    kernels::inverse_dct(64, 64, in, out);
    EXPECT_EQ(bits_of(out), bits_of(expected)) << target;
  });
}

TEST(InverseSparse, HasEqualBitsOnEveryTarget) {
  for (const Tile& tile : sample_tiles()) {
    const std::size_t size = tile.height * tile.width;
    const auto positions = some_positions(size, std::min<std::size_t>(40, size), 11);
    const auto values = normal_floats(positions.size(), 12);
    const auto expected = bits_of(decoded(tile, positions, values));
    for_each_target([&](const std::string& target) {
      EXPECT_EQ(bits_of(decoded(tile, positions, values)), expected) << target;
    });
  }
}

// Bits that any machine must reproduce: the basis has no libm in it. A change here is a change of
// protocol.
TEST(InverseDct, HasTheBitsItAlwaysHad) {
  std::uint64_t all = 0;
  for (std::size_t n = 1; n <= 64; ++n) {
    for (std::size_t u = 0; u < n; ++u) {
      std::vector<float> unit(n, 0.0f);
      std::vector<float> row(n);
      unit[u] = 1.0f;
      kernels::inverse_dct(1, n, unit, row);
      for (float value : row) all = all * 0x9e3779b97f4a7c15u + std::bit_cast<std::uint32_t>(value);
    }
  }
  EXPECT_EQ(all, 17612153370676592820u);
}

}  // namespace
}  // namespace thinwire
