#include "apps/plan_stats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::app {
namespace {

// How much of Student's distribution lies within [-t, t]: its density by Simpson's rule.
double within(double t, double degrees) {
  const double scale = std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) /
                       std::sqrt(degrees * M_PI);
  const auto density = [&](double x) {
    return scale * std::pow(1 + x * x / degrees, -(degrees + 1) / 2);
  };
  constexpr int kPieces = 20'000;
  const double width = t / kPieces;
  double sum = density(0) + density(t);
  for (int i = 1; i < kPieces; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(i * width);
  return 2 * sum * width / 3;
}

TEST(PlanStats, HasStudentsQuantiles) {
  for (std::size_t degrees = 1; degrees <= 30; ++degrees) {
    EXPECT_NEAR(within(student_t_975(degrees), static_cast<double>(degrees)), 0.95, 1e-9)
        << degrees;
  }
  EXPECT_NEAR(student_t_975(2), 4.303, 5e-4);  // as printed in any book
  EXPECT_NEAR(student_t_975(10), 2.228, 5e-4);
}

TEST(PlanStats, TakesDifferencesSeedBySeed) {
  // Far apart between seeds, close within each: only the pairing sees it.
  const Interval found = paired_difference({1.1, 2.2, 3.3}, {1.0, 2.0, 3.0});
  EXPECT_NEAR(found.mean, 0.2, 1e-12);
  EXPECT_NEAR(found.half, 4.3026527297 * 0.1 / std::sqrt(3.0), 1e-9);
  EXPECT_EQ(found.pairs, 3u);
}

TEST(PlanStats, SaysNothingOfWhatItCannotKnow) {
  const Interval one = paired_difference({1.5}, {1.0});
  EXPECT_DOUBLE_EQ(one.mean, 0.5);
  EXPECT_TRUE(std::isnan(one.half));
  EXPECT_TRUE(std::isnan(paired_difference({}, {}).mean));
  EXPECT_TRUE(std::isnan(standard_deviation_of({1.0})));
  EXPECT_NEAR(standard_deviation_of({1.0, 2.0, 3.0}), 1.0, 1e-12);
}

// Of many made-up experiments the interval must hold the truth in 95 of 100.
TEST(PlanStats, IntervalsHoldTheTruthAsOftenAsTheySay) {
  std::uint64_t state = 7;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 11) + 0.5) / 9007199254740992.0;
  };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform());
  };
  constexpr int kExperiments = 20'000;
  int held = 0;
  for (int i = 0; i < kExperiments; ++i) {
    std::vector<double> a, b;
    for (int seed = 0; seed < 3; ++seed) {
      const double level = 10 * normal();  // of the seed, common to both
      a.push_back(level + 0.25 + normal());
      b.push_back(level);
    }
    const Interval found = paired_difference(a, b);
    held += std::abs(found.mean - 0.25) <= found.half ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(held) / kExperiments, 0.95, 0.006);
}

}  // namespace
}  // namespace thinwire::app
