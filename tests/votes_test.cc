// The integer inverse of votes against a slow one written from docs/numerics.md, and the proof that
// 32 bits suffice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

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

// Q14, from the C library in extended precision.
std::int64_t q14(std::size_t n, std::size_t u, std::size_t i) {
  const long double pi = std::acos(-1.0L);
  const long double norm = std::sqrt((u == 0 ? 1.0L : 2.0L) / static_cast<long double>(n));
  const long double angle = pi * static_cast<long double>((2 * i + 1) * u) / (2.0L * n);
  return std::llround(norm * std::cos(angle) * 16384.0L);
}

std::vector<std::int64_t> q14_table(std::size_t n) {
  std::vector<std::int64_t> table;
  for (std::size_t u = 0; u < n; ++u)
    for (std::size_t i = 0; i < n; ++i) table.push_back(q14(n, u, i));
  return table;
}

// The whole tile before the sign, and the largest magnitude any sum had on the way.
struct SlowInverse {
  std::vector<std::int64_t> sums;
  std::int64_t largest = 0;
};

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

SlowInverse slow_inverse(std::size_t height, std::size_t width, const Positions& positions,
                         const Weights& weights) {
  const auto down = q14_table(height);
  const auto across = q14_table(width);
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
    row = floor_divide(row + 16384, 32768);
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

std::vector<float> directions(const Tile& tile, const Positions& positions,
                              const Weights& weights) {
  std::vector<float> direction(kSampleValues, kUntouched);
  kernels::inverse_votes(tile, positions, weights, direction);
  return direction;
}

TEST(InverseVotes, EqualsASlowIntegerInverseOnEveryTarget) {
  for (const Tile& tile : sample_tiles()) {
    for (std::size_t wanted : {0, 1, 8, 24, 200}) {
      const std::size_t size = tile.height * tile.width;
      const auto positions = some_positions(size, std::min(wanted, size), 1);
      const auto weights = some_weights(positions.size(), 2);
      const SlowInverse slow = slow_inverse(tile.height, tile.width, positions, weights);
      std::vector<float> expected(kSampleValues, kUntouched);
      for (std::size_t i = 0; i <= tile.rows; ++i) {
        const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
        for (std::size_t j = 0; j < count; ++j)
          expected[tile.offset + i * tile.stride + j] = sign(slow.sums[i * tile.width + j]);
      }
      for_each_target([&](const std::string& target) {
        EXPECT_EQ(directions(tile, positions, weights), expected)
            << target << " " << tile.height << " x " << tile.width << ", " << wanted << " set";
      });
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

// The proof of docs/numerics.md, by its finite check: |T| <= S 2^12 / 2^15 + 1/2 and |sum| <= S
// |T|.
TEST(InverseVotes, NeedsNoMoreThan32BitsWhateverIsSet) {
  constexpr std::int64_t kLimit = (std::int64_t{1} << 31) - 1;
  std::int64_t widest = 0;
  for (std::size_t n = 1; n <= 64; ++n) {
    const auto table = q14_table(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t sum = 0;
      for (std::size_t u = 0; u < n; ++u) sum += std::abs(table[u * n + i]);
      widest = std::max(widest, sum);
    }
  }
  EXPECT_LE(widest * 4096 + 16384, kLimit);
  const std::int64_t row = (widest * 4096 + 16384) / 32768 + 1;
  EXPECT_LE(widest * row, kLimit);
}

// The weights that push one value as far as it goes, with every coefficient set.
TEST(InverseVotes, IsRightAtItsLargestSums) {
  const Tile tile = whole_tile(64, 64);
  const auto table = q14_table(64);
  Positions positions;
  for (std::size_t p = 0; p < 4096; ++p) positions.push_back(static_cast<std::uint16_t>(p));
  for (std::size_t worst : {0, 10, 31, 63}) {
    Weights weights;
    for (std::size_t p = 0; p < 4096; ++p) {
      const bool positive = (table[p / 64 * 64 + worst] >= 0) == (table[p % 64 * 64 + worst] >= 0);
      weights.push_back(positive ? 4096 : -4096);
    }
    const SlowInverse slow = slow_inverse(64, 64, positions, weights);
    EXPECT_GT(slow.largest, std::int64_t{1} << 30);
    EXPECT_LT(slow.largest, std::int64_t{1} << 31);
    const auto ours = directions(tile, positions, weights);
    for (std::size_t i = 0; i < 4096; ++i) ASSERT_EQ(ours[i], sign(slow.sums[i]));
  }
}

TEST(InverseVotesDeathTest, RefusesWeightsBeyondOne) {
  std::vector<float> direction(4096);
  const Positions positions = {0};
  EXPECT_DEATH(kernels::inverse_votes(whole_tile(64, 64), positions, Weights{4097}, direction),
               "4096|kOne");
}

}  // namespace
}  // namespace thinwire
