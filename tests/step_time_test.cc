// What methods are told of the time that their site takes to compute.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/site_run.h"

namespace thinwire::test {
namespace {

struct Told {
  std::mutex mutex;
  std::map<std::uint64_t, std::vector<double>> extract;  // by step, of all ranks
  double in_apply = 0.0;
};

class Curious final : public Optimizer {
 public:
  Curious(Told& told, bool asks) : told_(told), asks_(asks) {}
  std::string_view name() const override { return "curious"; }
  Traits traits() const override { return {.wants_time = asks_}; }
  Update extract(const Step& step, Shard&) override {
    std::lock_guard lock(told_.mutex);
    told_.extract[step.index].push_back(step.compute_s);
    return {};
  }
  Update apply(const Step& step, Shard&, std::span<const Contribution>) override {
    std::lock_guard lock(told_.mutex);
    told_.in_apply += step.compute_s;
    return {};
  }

 private:
  Told& told_;
  bool asks_;
};

// Site 1 computes for 40 ms a step, its rank 1 for 80 ms; site 0 does nothing but wait for them.
class Slow final : public Model {
 public:
  Slow(int site, int rank) : toy_({}), pause_(site * (rank + 1) * 40) {}
  std::vector<ParameterSpec> parameters() const override { return toy_.parameters(); }
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    toy_.initialize(index, seed, values);
  }
  float loss_and_grad(Units& units, const Step& step) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_));
    return toy_.loss_and_grad(units, step);
  }

 private:
  ToyModel toy_;
  int pause_;
};

void run_curious(bool asks, Told& told) {
  SiteRunOptions run;
  run.world = {.sites = 2, .ranks = 2};
  run.steps = 5;
  run.model = [](int site, int rank) { return std::make_unique<Slow>(site, rank); };
  run.optimizer = [&] { return std::make_unique<Curious>(told, asks); };
  run_sites(run);
}

TEST(StepTime, IsThatOfTheSiteWithoutItsWaitsAndTheSameOnItsRanks) {
  Told told;
  run_curious(true, told);
  EXPECT_EQ(told.extract[0], std::vector<double>(4, 0.0));
  for (std::uint64_t step = 1; step < 5; ++step) {
    std::vector<double> all = told.extract[step];
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0], all[1]) << step;
    EXPECT_EQ(all[2], all[3]) << step;
    EXPECT_GT(all[2], 0.059) << "the mean of 40 and 80 ms";
    EXPECT_GT(all[0], 0.0);
    EXPECT_LT(all[0], all[2] / 2) << "waits count";
  }
  EXPECT_EQ(told.in_apply, 0.0);
}

TEST(StepTime, IsToldToThoseAloneWhoAsk) {
  Told told;
  run_curious(false, told);
  for (const auto& [step, times] : told.extract) {
    EXPECT_EQ(times, std::vector<double>(4, 0.0)) << step;
  }
}

}  // namespace
}  // namespace thinwire::test
