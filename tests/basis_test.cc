// The other bases of a tile, Hadamard's and none, against their definitions.
#include <gtest/gtest.h>

#include <bit>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using kernels::Basis;
using testing_support::basis_entry;
using testing_support::bits_of;
using testing_support::for_each_target;
using testing_support::kSampleValues;
using testing_support::normal_floats;
using testing_support::padded_values;
using testing_support::sample_tiles;
using testing_support::some_positions;
using testing_support::whole_tile;

constexpr Basis kBases[] = {Basis::dct, Basis::hadamard, Basis::none};

double entry(Basis basis, std::size_t n, std::size_t u, std::size_t i) {
  if (basis == Basis::none) return u == i ? 1.0 : 0.0;
  if (basis == Basis::dct || !std::has_single_bit(n)) return basis_entry(n, u, i);
  return (std::popcount(u & i) % 2 == 0 ? 1.0 : -1.0) / std::sqrt(static_cast<double>(n));
}

// By the definition, in double.
std::vector<double> exact_transform(Basis basis, std::size_t height, std::size_t width,
                                    const std::vector<float>& in, bool inverse) {
  const auto factor = [&](std::size_t n, std::size_t to, std::size_t from) {
    return inverse ? entry(basis, n, from, to) : entry(basis, n, to, from);
  };
  std::vector<double> half(height * width);
  std::vector<double> out(height * width);
  for (std::size_t v = 0; v < width; ++v)
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t i = 0; i < height; ++i)
        half[i * width + v] += factor(width, v, j) * in[i * width + j];
  for (std::size_t u = 0; u < height; ++u)
    for (std::size_t i = 0; i < height; ++i)
      for (std::size_t v = 0; v < width; ++v)
        out[u * width + v] += factor(height, u, i) * half[i * width + v];
  return out;
}

TEST(Basis, FoldAddsTheCoefficientsOfThePaddedTileOnEveryTarget) {
  const auto values = normal_floats(kSampleValues, 1);
  for (Basis basis : kBases) {
    for (const Tile& tile : sample_tiles()) {
      const auto before = normal_floats(tile.height * tile.width, 2);
      const auto expected =
          exact_transform(basis, tile.height, tile.width, padded_values(tile, values), false);
      for_each_target([&](const std::string& target) {
        auto residual = before;
        kernels::fold(tile, values, 0.75f, 0.5f, residual, basis);
        for (std::size_t i = 0; i < residual.size(); ++i) {
          ASSERT_NEAR(residual[i], 0.75 * before[i] + 0.5 * expected[i], 2e-6)
              << target << " " << tile.height << " x " << tile.width << " at " << i;
        }
      });
    }
  }
}

TEST(Basis, TheInverseUndoesTheTransformForEveryLength) {
  for (Basis basis : kBases) {
    for (std::size_t n = 1; n <= 64; ++n) {
      const std::size_t width = 65 - n;
      const auto in = normal_floats(n * width, 3);
      std::vector<float> coefficients(in.size());
      std::vector<float> back(in.size());
      kernels::transform(n, width, in, coefficients, basis);
      kernels::inverse(n, width, coefficients, back, basis);
      for (std::size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(back[i], in[i], 4e-6) << n;
    }
  }
}

TEST(Basis, TheFastInverseIsTheInverseOnEveryTarget) {
  constexpr float kUntouched = 77.0f;
  for (Basis basis : kBases) {
    for (const Tile& tile : sample_tiles()) {
      const auto coefficients = normal_floats(tile.height * tile.width, 8);
      const auto exact = exact_transform(basis, tile.height, tile.width, coefficients, true);
      std::vector<double> expected(kSampleValues, kUntouched);
      for (std::size_t i = 0; i <= tile.rows; ++i) {
        const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
        for (std::size_t j = 0; j < count; ++j)
          expected[tile.offset + i * tile.stride + j] = exact[i * tile.width + j];
      }
      for_each_target([&](const std::string& target) {
        std::vector<float> values(kSampleValues, kUntouched);
        kernels::inverse_fast(tile, coefficients, values, basis);
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected[i], 2e-6) << target << " at " << i;
      });
    }
  }
}

TEST(Basis, TheFastInverseUndoesTheTransformForEveryLength) {
  for (Basis basis : kBases) {
    for (std::size_t n = 1; n <= 64; ++n) {
      const Tile tile = whole_tile(n, 65 - n);
      const auto in = normal_floats(tile.height * tile.width, 9);
      std::vector<float> coefficients(in.size());
      std::vector<float> back(in.size());
      kernels::transform(tile.height, tile.width, in, coefficients, basis);
      kernels::inverse_fast(tile, coefficients, back, basis);
      for (std::size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(back[i], in[i], 4e-6) << n;
    }
  }
}

TEST(Basis, NoneKeepsTheBitsOfTheValues) {
  const auto in = normal_floats(61 * 33, 4);
  std::vector<float> coefficients(in.size());
  std::vector<float> back(in.size());
  kernels::transform(61, 33, in, coefficients, Basis::none);
  kernels::inverse(61, 33, coefficients, back, Basis::none);
  EXPECT_EQ(bits_of(coefficients), bits_of(in));
  EXPECT_EQ(bits_of(back), bits_of(in));
}

TEST(Basis, TheSparseInverseHasEqualBitsOnEveryTargetAndOfTheDenseOne) {
  for (Basis basis : kBases) {
    for (const auto& [height, width] : {std::pair{64, 64}, {32, 48}, {13, 7}, {1, 26}, {16, 2}}) {
      const Tile tile = whole_tile(height, width);
      const std::size_t size = tile.height * tile.width;
      const auto positions = some_positions(size, size / 3, 5);
      const auto values = normal_floats(positions.size(), 6);
      std::vector<float> dense(size, 0.0f);
      for (std::size_t k = 0; k < positions.size(); ++k) dense[positions[k]] = values[k];
      const auto exact = exact_transform(basis, height, width, dense, true);
      std::vector<float> expected(size);
      kernels::inverse(height, width, dense, expected, basis);
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(expected[i], exact[i], 2e-6);
      for_each_target([&](const std::string& target) {
        std::vector<float> direction(size);
        kernels::inverse_sparse(tile, {.positions = positions, .values = values}, direction, basis);
        EXPECT_EQ(bits_of(direction), bits_of(expected)) << target;
      });
    }
  }
}

}  // namespace
}  // namespace thinwire
