// Tests that need a device: without one they are skipped as a whole, with the reason.
#include <gtest/gtest.h>

#include <cstdio>

#include "thinwire/device.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleTest(&argc, argv);
  if (!thinwire::cuda_problem().empty()) {
    std::printf("skipped: %s\n", thinwire::cuda_problem().c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
