// The kernels that pass over flat arrays, on a device against the host: the same bits for any
// number of floats, in every order of threads.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/device_orders.h"
#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/device.h"
#include "thinwire/hash.h"
#include "thinwire/kernels.h"
#include "thinwire/moment_kernels.h"
#include "thinwire/range_kernels.h"

namespace thinwire {
namespace {

using testing_support::bits_of;
using testing_support::for_each_order;
using testing_support::for_each_target;
using testing_support::normal_floats;

using Values = std::vector<float>;

constexpr Device kDevice = Device::cuda(0);
constexpr std::size_t kLengths[] = {0, 1, 31, 255, 256, 257, 4096, 100003};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Random ones, among them zeros of both signs, subnormal ones, the largest and infinities.
Values some_floats(std::size_t count, unsigned seed) {
  constexpr float kSpecial[] = {0.0f,  -0.0f,  1e-45f,    -3e-39f, 1.1754942e-38f,
                                3e38f, -2e38f, kInfinity, 1e-20f,  -1e20f};
  Values values = normal_floats(count, seed);
  for (std::size_t i = seed; i < count; i += 11) values[i] = kSpecial[(i / 11 + seed) % 10];
  return values;
}

// What becomes of `arrays` on the host and on the device is the same, on all of the host's targets.
// change(arrays): Values or FloatBuffers.
template <class Change>
void expect_twins(const std::vector<Values>& arrays, const Change& change) {
  std::vector<Values> expected = arrays;
  change(expected);
  for_each_target([&](const std::string& target) {
    std::vector<Values> here = arrays;
    change(here);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      ASSERT_EQ(bits_of(here[i]), bits_of(expected[i])) << target << ", array " << i;
    }
  });
  for_each_order([&](const std::string& order) {
    std::vector<FloatBuffer> there;
    for (const Values& array : arrays) there.emplace_back(ConstFloats(array), kDevice);
    change(there);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      ASSERT_EQ(bits_of(to_host(there[i])), bits_of(expected[i]))
          << order << ", array " << i << " of " << arrays[i].size();
    }
  });
}

TEST(ScaleAdd, IsTheSameOnADevice) {
  for (const std::size_t n : kLengths) {
    expect_twins({some_floats(n, 1), some_floats(n, 2)},
                 [](auto& a) { kernels::scale_add(a[0], 0.999f, a[1], 0.3f); });
  }
}

TEST(Scale, IsTheSameOnADevice) {
  for (const std::size_t n : kLengths) {
    expect_twins({some_floats(n, 3)}, [](auto& a) { kernels::scale(a[0], 0.7f); });
  }
}

TEST(SignStep, IsTheSameOnADevice) {
  for (const std::size_t n : kLengths) {
    Values along = some_floats(n, 5);
    if (n > 30) along[30] = std::numeric_limits<float>::quiet_NaN();
    expect_twins({some_floats(n, 4), along},
                 [](auto& a) { kernels::sign_step(a[0], 0.99f, 0.01f, a[1]); });
  }
}

// Steps of an optimizer get finite numbers.
Values finite(Values values, float largest = 1e15f) {
  for (float& value : values) {
    if (!(std::abs(value) <= largest)) value = largest;
  }
  return values;
}

TEST(Adamw, IsTheSameOnADevice) {
  const kernels::AdamwStep step{.scale = 0.5f, .keep = 0.9997f, .rate = 3e-3f, .v_scale = 1.9f};
  for (const std::size_t n : kLengths) {
    Values v = finite(some_floats(n, 8));
    for (float& value : v) value = value * value;
    expect_twins(
        {finite(some_floats(n, 6)), finite(some_floats(n, 7)), v, finite(some_floats(n, 9))},
        [&](auto& a) { kernels::adamw(a[0], a[1], a[2], a[3], step); });
  }
}

TEST(Lion, IsTheSameOnADevice) {
  const kernels::LionStep step{.scale = 0.3f, .keep = 0.999f, .lr = 2e-3f};
  for (const std::size_t n : kLengths) {
    expect_twins({finite(some_floats(n, 6)), finite(some_floats(n, 7)), finite(some_floats(n, 9))},
                 [&](auto& a) { kernels::lion(a[0], a[1], a[2], step); });
  }
}

TEST(Moments, AreTheSameOnADevice) {
  const kernels::MomentStep step{.keep = 0.9997f, .rate = 3e-3f, .correction = 0.3f};
  for (const std::size_t n : kLengths) {
    Values v = finite(some_floats(n, 8));
    for (float& value : v) value = value * value;
    expect_twins(
        {finite(some_floats(n, 6)), finite(some_floats(n, 7)), v, finite(some_floats(n, 9))},
        [&](auto& a) {
          kernels::moment_step(a[0], a[1], a[2], step);
          kernels::add_squares(a[2], 0.95f, a[3]);
        });
  }
}

TEST(Moments, WhereNothingWasEverSquaredAParameterOnlyDecays) {
  for (const Device device : {Device(), kDevice}) {
    FloatBuffer x(Values{2.0f, 2.0f}, device);
    const FloatBuffer m(Values{1.0f, 1.0f}, device);
    const FloatBuffer v(Values{0.0f, 4.0f}, device);
    kernels::moment_step(x, m, v, {.keep = 0.5f, .rate = 1.0f, .eps = 0.0f});
    EXPECT_EQ(to_host(x), (Values{1.0f, 0.5f}));
  }
}

// All that can become of the lower half, and numbers that are none.
Values floats_to_round(std::size_t count) {
  Values values = some_floats(count, 1);
  for (std::size_t i = 3; i < count; i += 5) {
    values[i] = of_bits(static_cast<std::uint32_t>(0x3f7f0000u + 2654435761u % (i + 1) * 40503u));
  }
  constexpr std::uint32_t kBits[] = {0x7fa00001u, 0xff800001u, 0x7fffffffu, 0x7f7fffffu,
                                     0x3f808000u, 0x3f818000u, 0x3f808001u, 0x80000001u};
  for (std::size_t i = 4; i < count; i += 9) values[i] = of_bits(kBits[i / 9 % 8]);
  return values;
}

TEST(Bf16, RoundsTheSameOnADevice) {
  for (const std::size_t n : kLengths) {
    expect_twins({floats_to_round(n)}, [](auto& a) { kernels::round_to_bf16(a[0]); });
  }
}

TEST(Bf16, IsPackedAndUnpackedTheSameOnADevice) {
  for (const std::size_t n : kLengths) {
    const Values packed((n + 1) / 2);
    expect_twins({floats_to_round(n), packed, Values(n)}, [](auto& a) {
      kernels::pack_bf16(a[0], a[1]);
      kernels::unpack_bf16(a[1], a[2]);
    });
  }
}

TEST(Bf16, UnpackedAreTheRoundedOnes) {
  for (const std::size_t n : kLengths) {
    Values rounded = floats_to_round(n);
    Values packed((n + 1) / 2);
    Values unpacked(n);
    kernels::pack_bf16(rounded, packed);
    kernels::unpack_bf16(packed, unpacked);
    kernels::round_to_bf16(rounded);
    EXPECT_EQ(bits_of(unpacked), bits_of(rounded)) << n;
  }
}

TEST(AllFinite, FindsTheOneThatIsNot) {
  for_each_order([](const std::string& order) {
    for (const std::size_t n : std::initializer_list<std::size_t>{0, 1, 31, 256, 257, 10007}) {
      Values values = finite(some_floats(n, 3), std::numeric_limits<float>::max());
      EXPECT_TRUE(kernels::all_finite(FloatBuffer(values, kDevice))) << order << " " << n;
      for (const float bad : {kInfinity, -kInfinity, of_bits(0x7fa00001u), of_bits(0xffc00000u)}) {
        for (const std::size_t place : {std::size_t{0}, n / 2, n - 1}) {
          if (place >= n) continue;
          Values spoilt = values;
          spoilt[place] = bad;
          ASSERT_FALSE(kernels::all_finite(FloatBuffer(spoilt, kDevice))) << n << " " << place;
        }
      }
    }
  });
}

// Ranges of many sizes, some of them empty, at odd places.
std::vector<ShardRange> some_ranges(std::size_t floats) {
  std::vector<ShardRange> ranges = {{0, 0}, {3, 0}, {0, floats}, {floats, 0}, {1, floats - 1}};
  std::size_t at = 1;
  for (std::size_t size = 1; at + size < floats; size += size / 3 + 1) {
    ranges.push_back({at, size});
    at += size / 2 + 1;
  }
  for (std::size_t size = 50; size < 70; ++size) ranges.push_back({size, size});
  return ranges;
}

TEST(SumSquares, AddsInTheSameOrderOnADevice) {
  const Values x = finite(some_floats(100003, 5));
  const auto ranges = some_ranges(x.size());
  std::vector<double> expected(ranges.size());
  kernels::sum_squares(x, ranges, expected);
  for_each_target([&](const std::string& target) {
    std::vector<double> sums(ranges.size());
    kernels::sum_squares(x, ranges, sums);
    EXPECT_EQ(sums, expected) << target;
  });
  for_each_order([&](const std::string& order) {
    const FloatBuffer there(x, kDevice);
    std::vector<double> sums(ranges.size());
    kernels::sum_squares(there, ranges, sums);
    EXPECT_EQ(sums, expected) << order;
    EXPECT_EQ(kernels::sum_squares(there.floats().subspan(7)),
              kernels::sum_squares(ConstFloats(x).subspan(7)));
  });
}

TEST(SumSquares, OfEveryLength) {
  const Values x = normal_floats(4100, 6);
  std::vector<ShardRange> ranges;
  for (std::size_t n = 0; n <= 70; ++n) ranges.push_back({1, n});
  for (std::size_t n = 2030; n <= 2070; ++n) ranges.push_back({2, n});
  for (std::size_t n = 4090; n <= 4100; ++n) ranges.push_back({0, n});
  std::vector<double> here(ranges.size());
  std::vector<double> there(ranges.size());
  kernels::sum_squares(x, ranges, here);
  kernels::sum_squares(FloatBuffer(x, kDevice), ranges, there);
  EXPECT_EQ(there, here);
}

TEST(Hash, IsHash64OnADevice) {
  const Values x = some_floats(100003, 5);
  const auto ranges = some_ranges(x.size());
  std::vector<std::uint64_t> expected(ranges.size());
  kernels::hash(x, ranges, expected);
  EXPECT_EQ(expected[2], hash64(ConstFloats(x)));
  for_each_order([&](const std::string& order) {
    std::vector<std::uint64_t> hashes(ranges.size());
    kernels::hash(FloatBuffer(x, kDevice), ranges, hashes);
    EXPECT_EQ(hashes, expected) << order;
  });
}

// Around the ends of stripes, of blocks and of what is worked on between two barriers.
TEST(Hash, OfEveryLength) {
  const Values x = some_floats(2400, 7);
  std::vector<ShardRange> ranges;
  for (std::size_t n = 0; n <= 600; ++n) ranges.push_back({n % 3, n});
  for (std::size_t n = 2030; n <= 2330; ++n) ranges.push_back({n % 5, n});
  std::vector<std::uint64_t> here(ranges.size());
  std::vector<std::uint64_t> there(ranges.size());
  kernels::hash(x, ranges, here);
  kernels::hash(FloatBuffer(x, kDevice), ranges, there);
  EXPECT_EQ(there, here);
}

TEST(Ranges, NoneIsNothing) {
  const FloatBuffer there(4, kDevice);
  kernels::sum_squares(there, {}, {});
  kernels::hash(there, {}, {});
  EXPECT_EQ(kernels::sum_squares(FloatBuffer(0, kDevice)), 0.0);
}

TEST(DispatchDeathTest, FloatsOfOneCallLieInOnePlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const FloatBuffer there(4, kDevice);
  Values here(4);
  EXPECT_DEATH(kernels::scale_add(here, 1.0f, there, 1.0f), "device\\(\\)");
  std::vector<double> sums(1);
  const std::vector<ShardRange> outside = {{2, 3}};
  EXPECT_DEATH(kernels::sum_squares(there, outside, sums), "range.size");
}

}  // namespace
}  // namespace thinwire
