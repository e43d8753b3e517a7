// The orthogonal factor on a device against the host's, to the bit. The card is emulated.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/device_orders.h"
#include "tests/support/device_tiles.h"
#include "thinwire/device.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::bits_of;
using testing_support::kCard;
using testing_support::normal_floats;

void expect_twins(std::size_t rows, std::size_t cols, std::vector<float> matrix, int iterations) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << cols << ", " << iterations);
  FloatBuffer there(matrix, kCard);
  kernels::orthogonalize(rows, cols, there, iterations);
  kernels::orthogonalize(rows, cols, matrix, iterations);
  EXPECT_EQ(bits_of(to_host(there)), bits_of(matrix));
}

TEST(DeviceOrthogonalize, IsTheHostsToTheBit) {
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 1},    {1, 9},    {9, 1},   {5, 7},
                                                        {64, 64},  {33, 130}, {70, 33}, {129, 65},
                                                        {65, 129}, {32, 16}};
  for (const auto& [rows, cols] : shapes) {
    for (const int iterations : {1, 5}) {
      expect_twins(rows, cols, normal_floats(rows * cols, 3), iterations);
    }
  }
  expect_twins(20, 30, normal_floats(600, 4), 0);
  expect_twins(30, 20, normal_floats(600, 4), 2);
}

// The norm is a sum of many chunks.
TEST(DeviceOrthogonalize, NormsOfLongMatricesAreTheHosts) {
  expect_twins(3, 4099, normal_floats(3 * 4099, 5), 1);
}

TEST(DeviceOrthogonalize, ZerosStayZeros) { expect_twins(40, 50, std::vector<float>(2000), 5); }

TEST(DeviceOrthogonalize, IsTheSameInEveryOrderOfThreads) {
  testing_support::for_each_order([&](const std::string& order) {
    SCOPED_TRACE(order);
    expect_twins(70, 90, normal_floats(70 * 90, 6), 2);
  });
}

}  // namespace
}  // namespace thinwire
