// nvcc compiles C++20 with our headers and the program starts on machines without a driver.
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/types.h"

int double_and_add_one(thinwire::Floats values);

namespace {

constexpr int kInsufficientDriver = 35;  // cudaErrorInsufficientDriver: no driver installed
constexpr int kNoDevice = 100;           // cudaErrorNoDevice

TEST(CudaDialect, AKernelInCpp20RunsOrSaysThatThereIsNoGpu) {
  std::vector<float> values = {0.0f, 1.5f, -2.0f};
  const int error = double_and_add_one(values);
  if (error == kInsufficientDriver || error == kNoDevice) {
    EXPECT_EQ(values, (std::vector<float>{0.0f, 1.5f, -2.0f}));
  } else {
    ASSERT_EQ(error, 0);
    EXPECT_EQ(values, (std::vector<float>{1.0f, 4.0f, -3.0f}));
  }
}

}  // namespace
