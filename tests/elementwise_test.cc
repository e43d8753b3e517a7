// Passes over flat arrays: one rounding per operation, equal bits on every SIMD target, any length.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::bits_of;
using testing_support::for_each_target;
using testing_support::normal_floats;

constexpr std::size_t kLengths[] = {0, 1, 7, 8, 15, 16, 17, 64, 1000, 4096, 4099, 10001};

TEST(ScaleAdd, RoundsEachProductAndTheSumOnEveryTarget) {
  for (std::size_t n : kLengths) {
    const auto x = normal_floats(n, 1);
    const auto start = normal_floats(n, 2);
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      volatile float kept = 0.999f * start[i];
      volatile float added = 0.3f * x[i];
      expected[i] = kept + added;
    }
    for_each_target([&](const std::string& target) {
      auto y = start;
      kernels::scale_add(y, 0.999f, x, 0.3f);
      EXPECT_EQ(bits_of(y), bits_of(expected)) << target << " " << n;
    });
  }
}

TEST(Scale, MultipliesOnEveryTarget) {
  for (std::size_t n : kLengths) {
    const auto start = normal_floats(n, 3);
    for_each_target([&](const std::string& target) {
      auto y = start;
      kernels::scale(y, 0.7f);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], 0.7f * start[i]) << target;
    });
  }
}

TEST(SumSquares, AddsElementIToSumIModuloEightOnEveryTarget) {
  for (std::size_t n : kLengths) {
    const auto x = normal_floats(n, 4);
    double sums[8] = {};
    for (std::size_t i = 0; i < n; ++i) sums[i % 8] += static_cast<double>(x[i]) * x[i];
    const double expected =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for_each_target([&](const std::string& target) {
      EXPECT_EQ(kernels::sum_squares(x), expected) << target << " " << n;
    });
  }
}

TEST(AllFinite, FindsOneBadValueAnywhere) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_target([&](const std::string& target) {
    for (std::size_t n : kLengths) {
      auto x = normal_floats(n, 5);
      if (n > 0) x[0] = std::numeric_limits<float>::max();
      EXPECT_TRUE(kernels::all_finite(x)) << target << " " << n;
      for (float bad : {infinity, -infinity, nan, -nan}) {
        for (std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
          if (n == 0) continue;
          auto y = x;
          y[at] = bad;
          EXPECT_FALSE(kernels::all_finite(y)) << target << " " << n << " " << at;
        }
      }
    }
  });
}

TEST(SignStep, MovesByLrAgainstTheSignAndNotAtZeroOnEveryTarget) {
  for (std::size_t n : kLengths) {
    auto direction = normal_floats(n, 6);
    for (std::size_t i = 0; i < n; i += 3) direction[i] = i % 2 == 0 ? 0.0f : -0.0f;
    const auto start = normal_floats(n, 7);
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      volatile float kept = 0.99f * start[i];
      expected[i] = direction[i] > 0 ? kept - 0.01f : direction[i] < 0 ? kept + 0.01f : kept;
    }
    for_each_target([&](const std::string& target) {
      auto x = start;
      kernels::sign_step(x, 0.99f, 0.01f, direction);
      EXPECT_EQ(bits_of(x), bits_of(expected)) << target << " " << n;
    });
  }
}

struct Moments {
  std::vector<float> x, m, v;
};

Moments adamw_by_hand(Moments at, const std::vector<float>& g, const kernels::AdamwStep& s) {
  const float rest1 = 1.0f - s.beta1;
  const float rest2 = 1.0f - s.beta2;
  for (std::size_t i = 0; i < g.size(); ++i) {
    volatile float scaled = s.scale * g[i];
    volatile float square = scaled * scaled;
    volatile float old_m = s.beta1 * at.m[i], new_m = rest1 * scaled;
    volatile float old_v = s.beta2 * at.v[i], new_v = rest2 * square;
    at.m[i] = old_m + new_m;
    at.v[i] = old_v + new_v;
    volatile float root = std::sqrt(at.v[i]);
    volatile float scaled_root = root * s.v_scale;
    volatile float size = scaled_root + s.eps;
    volatile float moved = s.rate * at.m[i];
    volatile float step = moved / size;
    volatile float kept = s.keep * at.x[i];
    at.x[i] = kept - step;
  }
  return at;
}

TEST(Adamw, RoundsEveryOperationOnEveryTarget) {
  const kernels::AdamwStep step{.scale = 0.5f, .keep = 0.9997f, .rate = 3e-3f, .v_scale = 1.9f};
  for (std::size_t n : kLengths) {
    const auto g = normal_floats(n, 8);
    Moments start{normal_floats(n, 9), normal_floats(n, 10), normal_floats(n, 11)};
    for (float& v : start.v) v = v * v;
    const Moments expected = adamw_by_hand(start, g, step);
    for_each_target([&](const std::string& target) {
      Moments at = start;
      kernels::adamw(at.x, at.m, at.v, g, step);
      EXPECT_EQ(bits_of(at.x), bits_of(expected.x)) << target << " " << n;
      EXPECT_EQ(bits_of(at.m), bits_of(expected.m)) << target << " " << n;
      EXPECT_EQ(bits_of(at.v), bits_of(expected.v)) << target << " " << n;
    });
  }
}

TEST(Lion, RoundsEveryOperationOnEveryTarget) {
  const kernels::LionStep step{.scale = 0.5f, .keep = 0.9997f, .lr = 3e-3f};
  const float rest1 = 1.0f - step.beta1;
  const float rest2 = 1.0f - step.beta2;
  for (std::size_t n : kLengths) {
    auto g = normal_floats(n, 12);
    const auto x = normal_floats(n, 13);
    auto m = normal_floats(n, 14);
    for (std::size_t i = 0; i < n; i += 5) g[i] = m[i] = 0.0f;  // no direction
    auto new_x = x;
    auto new_m = m;
    for (std::size_t i = 0; i < n; ++i) {
      volatile float scaled = step.scale * g[i];
      volatile float old1 = step.beta1 * m[i], new1 = rest1 * scaled;
      volatile float old2 = step.beta2 * m[i], new2 = rest2 * scaled;
      const float along = old1 + new1;
      volatile float kept = step.keep * x[i];
      new_m[i] = old2 + new2;
      new_x[i] = along > 0.0f ? kept - step.lr : along < 0.0f ? kept + step.lr : kept;
    }
    for_each_target([&](const std::string& target) {
      auto at = x;
      auto momentum = m;
      kernels::lion(at, momentum, g, step);
      EXPECT_EQ(bits_of(at), bits_of(new_x)) << target << " " << n;
      EXPECT_EQ(bits_of(momentum), bits_of(new_m)) << target << " " << n;
    });
  }
}

}  // namespace
}  // namespace thinwire
