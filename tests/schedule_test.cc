#include "thinwire/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/error.h"

namespace thinwire {
namespace {

TEST(Schedule, WarmsUpInAStraightLine) {
  const Schedule schedule{.peak = 1.0f, .steps = 100, .warmup = 10};
  EXPECT_FLOAT_EQ(schedule.at(0), 0.1f);
  EXPECT_FLOAT_EQ(schedule.at(4), 0.5f);
  EXPECT_FLOAT_EQ(schedule.at(9), 1.0f);
  EXPECT_FLOAT_EQ(schedule.at(10), 1.0f);
}

TEST(Schedule, CosineIsTheCosine) {
  const Schedule schedule{.peak = 2.0f, .steps = 1001, .floor = 0.1f};
  for (std::uint64_t step = 0; step <= 1000; ++step) {
    const double share = 0.5 * (1.0 - std::cos(M_PI * step / 1000.0));
    EXPECT_NEAR(schedule.at(step), 2.0 * (1.0 - 0.9 * share), 1e-6);
  }
  EXPECT_FLOAT_EQ(schedule.at(1000), 0.2f);
  EXPECT_FLOAT_EQ(schedule.at(100'000), 0.2f);
}

TEST(Schedule, LinearEndsAtItsFloor) {
  const Schedule schedule{.shape = ScheduleShape::linear, .peak = 1.0f, .steps = 11, .floor = 0.0f};
  for (int step = 0; step <= 10; ++step) EXPECT_NEAR(schedule.at(step), 1.0 - 0.1 * step, 1e-6);
}

TEST(Schedule, WsdStaysThenFalls) {
  const Schedule schedule{.shape = ScheduleShape::wsd,
                          .peak = 1.0f,
                          .steps = 100,
                          .warmup = 5,
                          .floor = 0.0f,
                          .decay = 0.2f};
  EXPECT_FLOAT_EQ(schedule.at(50), 1.0f);
  EXPECT_FLOAT_EQ(schedule.at(79), 1.0f);
  EXPECT_FLOAT_EQ(schedule.at(89), 0.5f);
  EXPECT_FLOAT_EQ(schedule.at(99), 0.0f);
}

TEST(Schedule, RunsOfOneStepAndWarmUpOnlyAreOrdinary) {
  EXPECT_GT((Schedule{.peak = 1.0f, .steps = 1}.at(0)), 0.0f);
  const Schedule only{.peak = 1.0f, .steps = 4, .warmup = 4};
  EXPECT_FLOAT_EQ(only.at(3), 1.0f);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_THROW((Schedule{.peak = 0.0f, .steps = 1}.validate()), UsageError);
  EXPECT_THROW((Schedule{.peak = NAN, .steps = 1}.validate()), UsageError);
  EXPECT_THROW((Schedule{.peak = 1.0f, .steps = 0}.validate()), UsageError);
  EXPECT_THROW((Schedule{.peak = 1.0f, .steps = 2, .warmup = 3}.validate()), UsageError);
  EXPECT_THROW((Schedule{.peak = 1.0f, .steps = 2, .floor = 2.0f}.validate()), UsageError);
  EXPECT_THROW((Schedule{.peak = 1.0f, .steps = 2, .decay = -1.0f}.validate()), UsageError);
  EXPECT_THROW(parse_schedule_shape("cosin"), UsageError);
}

}  // namespace
}  // namespace thinwire
