// Top-k against a full sort: the set, the ties, the order, zeros.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::for_each_target;
using testing_support::normal_floats;

std::vector<std::uint16_t> picked(const std::vector<float>& x, std::size_t k) {
  std::vector<std::uint16_t> positions(k + 1, 0xbeef);
  const std::size_t count = kernels::top_k(x, k, positions.data());
  EXPECT_LE(count, k);
  EXPECT_EQ(positions[k], 0xbeef);
  positions.resize(count);
  return positions;
}

std::vector<std::uint16_t> by_sorting(const std::vector<float>& x, std::size_t k) {
  std::vector<std::uint16_t> order(x.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::erase_if(order, [&](std::uint16_t i) { return x[i] == 0.0f; });
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopK, IsWhatSortingGivesForAnyCountAndK) {
  for_each_target([](const std::string& target) {
    for (std::size_t count : {1, 2, 26, 63, 64, 65, 91, 192, 1536, 4000, 4096}) {
      const auto x = normal_floats(count, static_cast<unsigned>(count));
      for (std::size_t k : {0, 1, 2, 7, 8, 31, 32, 63, 64, 65, 500, 4095, 4096}) {
        EXPECT_EQ(picked(x, k), by_sorting(x, k)) << target << " " << count << " " << k;
      }
    }
  });
}

TEST(TopK, GivesTiesToTheLowerIndex) {
  for_each_target([](const std::string& target) {
    auto x = normal_floats(4096, 1);
    for (float& value : x) value = std::round(value);  // magnitudes 0 .. 4, either sign
    for (std::size_t k : {1, 8, 32, 64, 100, 2000, 4096}) {
      EXPECT_EQ(picked(x, k), by_sorting(x, k)) << target << " " << k;
    }
    const std::vector<float> level(4096, -1.0f);
    EXPECT_EQ(picked(level, 3), (std::vector<std::uint16_t>{0, 1, 2})) << target;
  });
}

TEST(TopK, SkipsZerosOfEitherSign) {
  std::vector<float> x(4096, 0.0f);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -0.0f;
  EXPECT_TRUE(picked(x, 8).empty());
  x[4095] = -3.0f;
  x[17] = 1e-30f;
  EXPECT_EQ(picked(x, 8), (std::vector<std::uint16_t>{17, 4095}));
  EXPECT_EQ(picked(x, 1), (std::vector<std::uint16_t>{4095}));
}

TEST(TopK, OrdersTheSmallestAndTheLargestFloats) {
  std::vector<float> x(64, 0.0f);
  x[3] = std::numeric_limits<float>::denorm_min();
  x[2] = std::numeric_limits<float>::min();
  x[60] = std::numeric_limits<float>::lowest();
  x[61] = std::numeric_limits<float>::max();
  EXPECT_EQ(picked(x, 1), (std::vector<std::uint16_t>{60}));
  EXPECT_EQ(picked(x, 3), (std::vector<std::uint16_t>{2, 60, 61}));
  EXPECT_EQ(picked(x, 9), (std::vector<std::uint16_t>{2, 3, 60, 61}));
}

// All the large ones in one group of the first scan, where its bound is of little use.
TEST(TopK, IsRightWhenTheLargeOnesStandInOneColumn) {
  auto x = normal_floats(4096, 2);
  for (std::size_t i = 5; i < x.size(); i += 64) x[i] *= 1000.0f;
  for (std::size_t k : {8, 32, 64}) EXPECT_EQ(picked(x, k), by_sorting(x, k));
}

TEST(TopK, OfNothingIsNothing) { EXPECT_TRUE(picked({}, 5).empty()); }

}  // namespace
}  // namespace thinwire
