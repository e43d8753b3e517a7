// A few bits for a value: every code means what it says, and is the nearest one.
#include "thinwire/coarse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace thinwire {
namespace {

// What the values of a tile with that scale can become, apart from the sign.
std::vector<float> levels(Coarse coarse) {
  if (coarse == Coarse::sign) return {1.0f};
  if (coarse == Coarse::two_bit) return {0.75f, 1.5f};
  return {0.0f, 0x1p-6f, 0x1p-5f, 0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1.0f};
}

constexpr Coarse kScaled[] = {Coarse::sign, Coarse::two_bit, Coarse::e3m0};

TEST(Coarse, EveryCodeIsDecodedToItsLevelAndEncodedBack) {
  for (const Coarse coarse : kScaled) {
    for (const float scale : {1.0f, 3.25e-7f, 1e30f}) {
      const std::vector<float> all = levels(coarse);
      for (std::uint32_t code = 0; code < 1u << code_bits(coarse); ++code) {
        const float sign = code % 2 == 0 ? 1.0f : -1.0f;
        const float value = decode(coarse, code, scale);
        EXPECT_EQ(value, sign * all[code / 2] * scale) << code;
        // Nothing has no sign that would survive.
        const std::uint32_t expected = value == 0.0f ? 0 : code;
        EXPECT_EQ(encode(coarse, value, scale), expected) << code << " of " << scale;
      }
    }
  }
}

TEST(Coarse, PlainKeepsEveryBit) {
  for (const float value : {0.0f, -0.0f, 1.0f, -3.4e38f, 1e-45f}) {
    const std::uint32_t code = encode(Coarse::plain, value, 0.0f);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(decode(Coarse::plain, code, 0.0f)),
              std::bit_cast<std::uint32_t>(value));
  }
}

TEST(Coarse, TheNearestLevelIsChosen) {
  const float scale = 0.37f;
  for (const Coarse coarse : kScaled) {
    const float most = coarse == Coarse::e3m0 ? 1.0f : 3.0f;
    for (int i = -4999; i <= 4999; ++i) {
      const float value = scale * most * static_cast<float>(i) / 4999.5f;
      float nearest = std::numeric_limits<float>::infinity();
      for (const float level : levels(coarse)) {
        nearest = std::min(nearest, std::fabs(std::fabs(value) - level * scale));
      }
      const float got = decode(coarse, encode(coarse, value, scale), scale);
      EXPECT_NEAR(std::fabs(value - got), nearest, 1e-7f) << value / scale;
      EXPECT_GE(value * got, 0.0f);
    }
  }
}

// numerics.md would otherwise have to say it: every machine takes the upper one.
TEST(Coarse, AMiddleGoesUp) {
  for (int i = 1; i <= 6; ++i) {
    EXPECT_EQ(encode(Coarse::e3m0, 1.5f * std::ldexp(1.0f, i - 7), 1.0f) / 2, i + 1u);
  }
  EXPECT_EQ(encode(Coarse::e3m0, 0x1p-7f, 1.0f) / 2, 1u);
  EXPECT_EQ(encode(Coarse::e3m0, std::nextafter(0x1p-7f, 0.0f), 1.0f) / 2, 0u);
  EXPECT_EQ(encode(Coarse::two_bit, 1.125f, 1.0f), 0u);
  EXPECT_EQ(encode(Coarse::two_bit, std::nextafter(1.125f, 2.0f), 1.0f), 2u);
}

TEST(Coarse, ScalesAreTheMeanOrTheLargestMagnitude) {
  const std::vector<float> values{-3.0f, 1.0f, 0.0f, 0.5f};
  EXPECT_EQ(scale_of(Coarse::sign, values), 1.125f);
  EXPECT_EQ(scale_of(Coarse::two_bit, values), 1.125f);
  EXPECT_EQ(scale_of(Coarse::e3m0, values), 3.0f);
  for (const Coarse coarse : kScaled) {
    EXPECT_EQ(scale_of(coarse, {}), 0.0f);
    EXPECT_EQ(scale_of(coarse, std::vector<float>{-0.0f, 0.0f}), 0.0f);
    // A sum of floats would overflow.
    EXPECT_EQ(scale_of(coarse, std::vector<float>{3e38f, -3e38f}), 3e38f);
  }
}

TEST(Coarse, WithoutAScaleNothingIsSaid) {
  for (const Coarse coarse : kScaled) {
    for (const float value : {0.0f, -0.0f, 1e-45f, -2.0f}) {
      EXPECT_EQ(decode(coarse, encode(coarse, value, 0.0f), 0.0f), 0.0f);
    }
  }
}

// The sign of a zero is its bit, at every site.
TEST(Coarse, ANegativeZeroVotesMinus) {
  EXPECT_EQ(encode(Coarse::sign, -0.0f, 1.0f), 1u);
  EXPECT_EQ(encode(Coarse::sign, 0.0f, 1.0f), 0u);
  EXPECT_EQ(decode(Coarse::e3m0, encode(Coarse::e3m0, -0.0f, 1.0f), 1.0f), 0.0f);
}

TEST(Coarse, DenormalsAreValuesLikeOthers) {
  const float tiny = 1e-45f;
  EXPECT_EQ(decode(Coarse::e3m0, encode(Coarse::e3m0, tiny, tiny), tiny), tiny);
  EXPECT_EQ(decode(Coarse::e3m0, encode(Coarse::e3m0, -0x1p-140f, 0x1p-139f), 0x1p-139f),
            -0x1p-140f);
  EXPECT_EQ(encode(Coarse::e3m0, tiny, 1.0f) / 2, 0u);  // the ratio is a denormal
  EXPECT_EQ(scale_of(Coarse::sign, std::vector<float>{tiny, -tiny}), tiny);
}

}  // namespace
}  // namespace thinwire
