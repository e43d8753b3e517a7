// The integer inverses of votes against a slow one written from docs/numerics.md, and the proof
// that 32 bits suffice.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using kernels::Basis;
using testing_support::exact_transform;
using testing_support::for_each_target;
using testing_support::kSampleValues;
using testing_support::normal_floats;
using testing_support::sample_tiles;
using testing_support::some_positions;
using testing_support::whole_tile;

constexpr float kUntouched = 77.0f;
using Weights = std::vector<std::int32_t>;
using Positions = std::vector<std::uint16_t>;

constexpr Basis kBases[] = {Basis::dct, Basis::hadamard, Basis::none};

// Q14, from the C library in extended precision.
std::int64_t q14(Basis basis, std::size_t n, std::size_t u, std::size_t i) {
  if (basis == Basis::none) return u == i ? 16384 : 0;
  if (basis == Basis::hadamard && std::has_single_bit(n)) {
    const std::int64_t size = std::llround(16384.0L / std::sqrt(static_cast<long double>(n)));
    return std::popcount(u & i) % 2 == 0 ? size : -size;
  }
  const long double pi = std::acos(-1.0L);
  const long double norm = std::sqrt((u == 0 ? 1.0L : 2.0L) / static_cast<long double>(n));
  const long double angle = pi * static_cast<long double>((2 * i + 1) * u) / (2.0L * n);
  return std::llround(norm * std::cos(angle) * 16384.0L);
}

std::vector<std::int64_t> q14_table(Basis basis, std::size_t n) {
  std::vector<std::int64_t> table;
  for (std::size_t u = 0; u < n; ++u)
    for (std::size_t i = 0; i < n; ++i) table.push_back(q14(basis, n, u, i));
  return table;
}

// The whole tile before the sign, and the largest magnitude any sum had on the way.
struct SlowInverse {
  std::vector<std::int64_t> sums;
  std::int64_t largest = 0;
};

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

SlowInverse slow_inverse(Basis basis, std::size_t height, std::size_t width,
                         const Positions& positions, const Weights& weights) {
  const auto down = q14_table(basis, height);
  const auto across = q14_table(basis, width);
  std::vector<std::int64_t> rows(height * width, 0);
  for (std::size_t k = 0; k < positions.size(); ++k) {
    const std::size_t u = positions[k] / width;
    const std::size_t v = positions[k] % width;
    for (std::size_t j = 0; j < width; ++j)
      rows[u * width + j] += weights[k] * across[v * width + j];
  }
  SlowInverse slow{.sums = std::vector<std::int64_t>(height * width, 0), .largest = 0};
  for (std::int64_t& row : rows) {
    slow.largest = std::max(slow.largest, std::abs(row) + 16384);
    row = std::clamp<std::int64_t>(floor_divide(row + 16384, 32768), -16383, 16383);
  }
  for (std::size_t i = 0; i < height; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      std::int64_t sum = 0;
      for (std::size_t u = 0; u < height; ++u) {
        sum += down[u * height + i] * rows[u * width + j];
        slow.largest = std::max(slow.largest, std::abs(sum));
      }
      slow.sums[i * width + j] = sum;
    }
  }
  return slow;
}

float sign(std::int64_t value) { return static_cast<float>((value > 0) - (value < 0)); }

Weights some_weights(std::size_t count, unsigned seed) {
  Weights weights;
  for (float value : normal_floats(count, seed))
    weights.push_back(std::clamp(static_cast<int>(value * 2000.0f), -4096, 4096));
  return weights;
}

std::vector<float> directions(const Tile& tile, const Positions& positions, const Weights& weights,
                              Basis basis = Basis::dct) {
  std::vector<float> direction(kSampleValues, kUntouched);
  kernels::inverse_votes(tile, positions, weights, direction, basis);
  return direction;
}

// Values, and the sum of their squares.
struct Amplitudes {
  std::vector<float> values;
  std::uint64_t squares = 0;

  bool operator==(const Amplitudes&) const = default;
};

Amplitudes amplitudes(const Tile& tile, const Positions& positions, const Weights& weights,
                      Basis basis) {
  Amplitudes made{.values = std::vector<float>(kSampleValues, kUntouched), .squares = 0};
  made.squares = kernels::inverse_votes_amplitude(tile, positions, weights, made.values, basis);
  return made;
}

// What the two functions must give for these sums.
struct Expected {
  std::vector<float> directions;
  Amplitudes amplitudes;
};

Expected expected_of(const Tile& tile, const SlowInverse& slow) {
  Expected expected{.directions = std::vector<float>(kSampleValues, kUntouched),
                    .amplitudes = {std::vector<float>(kSampleValues, kUntouched), 0}};
  for (std::size_t i = 0; i <= tile.rows; ++i) {
    const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
    for (std::size_t j = 0; j < count; ++j) {
      const std::int64_t sum = slow.sums[i * tile.width + j];
      const std::int64_t q17 = floor_divide(sum + 128, 256);
      const std::size_t at = tile.offset + i * tile.stride + j;
      expected.directions[at] = sign(sum);
      expected.amplitudes.values[at] = static_cast<float>(q17);
      expected.amplitudes.squares += static_cast<std::uint64_t>(q17 * q17);
    }
  }
  return expected;
}

void expect_equal_on_every_target(const Tile& tile, const Positions& positions,
                                  const Weights& weights, Basis basis) {
  const Expected expected =
      expected_of(tile, slow_inverse(basis, tile.height, tile.width, positions, weights));
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target + " " + std::to_string(tile.height) + " x " + std::to_string(tile.width) +
                 ", " + std::to_string(positions.size()) + " set");
    EXPECT_EQ(directions(tile, positions, weights, basis), expected.directions);
    EXPECT_TRUE(amplitudes(tile, positions, weights, basis) == expected.amplitudes);
  });
}

TEST(InverseVotes, EqualsASlowIntegerInverseOnEveryTarget) {
  for (Basis basis : kBases) {
    for (const Tile& tile : sample_tiles()) {
      for (std::size_t wanted : {0, 1, 8, 24, 200}) {
        const std::size_t size = tile.height * tile.width;
        const auto positions = some_positions(size, std::min(wanted, size), 1);
        expect_equal_on_every_target(tile, positions, some_weights(positions.size(), 2), basis);
      }
    }
  }
}

TEST(InverseVotes, HasTheSignsOfTheExactInverseExceptNearZero) {
  constexpr double kBound = 2e-3;  // of values of about 0.07
  std::size_t compared = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Tile tile = whole_tile(64, 64);
    const auto positions = some_positions(4096, 24, seed);
    const auto weights = some_weights(24, seed + 100);
    std::vector<float> dense(4096, 0.0f);
    for (std::size_t k = 0; k < 24; ++k)
      dense[positions[k]] = static_cast<float>(weights[k]) / 4096;
    const auto exact = exact_transform(64, 64, dense, true);
    const auto ours = directions(tile, positions, weights);
    for (std::size_t i = 0; i < 4096; ++i) {
      if (std::abs(exact[i]) <= kBound) continue;
      ++compared;
      ASSERT_EQ(ours[i], exact[i] > 0.0 ? 1.0f : -1.0f) << exact[i];
    }
  }
  EXPECT_GT(compared, 20u * 4096 * 9 / 10);
}

// The proof of docs/numerics.md, by its finite check: |T| <= S 2^12 / 2^15 + 1/2, no more than
// 2^14 - 1, and |sum| <= S |T|, with room for the rounding to Q17.
TEST(InverseVotes, NeedsNoMoreThan32BitsWhateverIsSet) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 1;
  std::int64_t widest = 0;
  for (Basis basis : kBases) {
    for (std::size_t n = 1; n <= 64; ++n) {
      const auto table = q14_table(basis, n);
      for (std::size_t i = 0; i < n; ++i) {
        std::int64_t sum = 0;
        for (std::size_t u = 0; u < n; ++u) sum += std::abs(table[u * n + i]);
        if (basis == Basis::dct) {
          EXPECT_LE((sum * 4096 + 16384) / 32768, 14825);  // which is never clamped
        }
        widest = std::max(widest, sum);
      }
    }
  }
  EXPECT_EQ(widest, 131072);
  EXPECT_LE(widest * 4096 + 16384, kLimit);
  EXPECT_LE(widest * 16383 + 128, kLimit);
  EXPECT_LT((widest * 16383 + 128) / 256, std::int64_t{1} << 23);
}

// The weights that push one value as far as it goes, with every coefficient set.
TEST(InverseVotes, IsRightAtItsLargestSums) {
  const Tile tile = whole_tile(64, 64);
  const Positions positions = some_positions(4096, 4096, 1);
  for (Basis basis : kBases) {
    const auto table = q14_table(basis, 64);
    for (std::size_t worst : {0, 10, 31, 63}) {
      for (int most : {4096, -4096}) {
        Weights weights;
        for (std::size_t p = 0; p < 4096; ++p) {
          const bool positive =
              (table[p / 64 * 64 + worst] >= 0) == (table[p % 64 * 64 + worst] >= 0);
          weights.push_back(positive ? most : -most);
        }
        const SlowInverse slow = slow_inverse(basis, 64, 64, positions, weights);
        if (basis != Basis::none) {
          EXPECT_GT(slow.largest, std::int64_t{1} << 30);
        }
        if (basis == Basis::hadamard) {
          EXPECT_EQ(slow.largest, 131072 * 16383);
        }
        EXPECT_LT(slow.largest, std::int64_t{1} << 31);
        EXPECT_LT(amplitudes(tile, positions, weights, basis).squares, std::uint64_t{1} << 47);
        expect_equal_on_every_target(tile, positions, weights, basis);
      }
    }
  }
}

// 2^17 is one: what the amplitude means, against the definition in double.
TEST(InverseVotesAmplitude, IsTheInverseInUnitsOfTwoToTheMinus17) {
  const Tile tile = whole_tile(64, 64);
  const auto positions = some_positions(4096, 24, 3);
  const auto weights = some_weights(24, 4);
  std::vector<float> dense(4096, 0.0f);
  for (std::size_t k = 0; k < 24; ++k) dense[positions[k]] = static_cast<float>(weights[k]) / 4096;
  const auto exact = exact_transform(64, 64, dense, true);
  const Amplitudes ours = amplitudes(tile, positions, weights, Basis::dct);
  double squares = 0.0;
  for (std::size_t i = 0; i < 4096; ++i) {
    ASSERT_NEAR(ours.values[i] / 131072.0, exact[i], 1e-3);
    squares += exact[i] * exact[i];
  }
  EXPECT_NEAR(static_cast<double>(ours.squares) / 131072.0 / 131072.0, squares, 1e-2 * squares);
}

TEST(InverseVotesDeathTest, RefusesWeightsBeyondOne) {
  std::vector<float> direction(4096);
  const Positions positions = {0};
  EXPECT_DEATH(kernels::inverse_votes(whole_tile(64, 64), positions, Weights{4097}, direction),
               "4096|kOne");
  EXPECT_DEATH(
      kernels::inverse_votes_amplitude(whole_tile(64, 64), positions, Weights{-4097}, direction),
      "4096|kOne");
}

}  // namespace
}  // namespace thinwire
