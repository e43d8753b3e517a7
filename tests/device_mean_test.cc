// The ordered mean of a near link between devices, against that of the host.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/device_orders.h"
#include "tests/support/random.h"
#include "thinwire/device.h"
#include "transports/nccl_mean_internal.h"
#include "transports/ordered_mean_internal.h"

namespace thinwire {
namespace {

TEST(DeviceMean, HasTheBitsOfTheHostAlsoInThePlaceOfASource) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{257}, std::size_t{5000}}) {
    for (const int members : {1, 2, 3, 7}) {
      std::vector<std::vector<float>> values;
      for (int i = 0; i < members; ++i) {
        values.emplace_back(size);
        for (std::size_t j = 0; j < size; ++j) values.back()[j] = 1e3f * test::noise(i, j);
      }
      std::vector<const float*> here;
      for (const auto& one : values) here.push_back(one.data());
      std::vector<float> expected(size);
      ordered_mean(here, expected);
      testing_support::for_each_order([&](const std::string& order) {
        std::vector<FloatBuffer> buffers;
        std::vector<const float*> there;
        for (const auto& one : values) {
          buffers.emplace_back(ConstFloats(one), Device::cuda(0));
          there.push_back(buffers.back().floats().data());
        }
        nccl_mean(there, buffers.back());
        EXPECT_EQ(to_host(buffers.back()), expected) << order << ", " << members << " x " << size;
      });
    }
  }
}

}  // namespace
}  // namespace thinwire
