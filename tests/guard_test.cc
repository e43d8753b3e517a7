// What a trainer does about useless losses and gradients, and about ranks that hold other bits.
#include "thinwire/guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "optimizers/adamw.h"
#include "tests/support/site_run.h"

namespace thinwire::test {
namespace {

TEST(LossGuard, TakesSlowChangesAndNoiseForWhatTheyAre) {
  LossGuard guard(6.0f);
  for (int i = 0; i < 2000; ++i) {
    const float loss = 5.0f / (1.0f + 0.01f * static_cast<float>(i)) + 0.1f * noise(1, i);
    EXPECT_FALSE(guard.is_spike(loss)) << i;
  }
}

TEST(LossGuard, NoticesASpikeAndForgetsIt) {
  LossGuard guard(6.0f);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(guard.is_spike(2.0f + 0.05f * noise(2, i)));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(guard.is_spike(3.0f)) << "the tenth is one like the first";
    EXPECT_TRUE(guard.is_spike(std::numeric_limits<float>::quiet_NaN()));
    EXPECT_FALSE(guard.is_spike(2.0f));
  }
}

TEST(LossGuard, SaysNothingBeforeItKnowsAndWhenItIsOff) {
  LossGuard fresh(2.0f);
  EXPECT_FALSE(fresh.is_spike(1.0f));
  EXPECT_FALSE(fresh.is_spike(1000.0f));
  LossGuard off(0.0f);
  for (int i = 0; i < 100; ++i) off.is_spike(1.0f);
  EXPECT_FALSE(off.is_spike(std::numeric_limits<float>::infinity()));
}

SiteRunOptions run_with(GuardOptions guard, ToyOptions toy = {}) {
  SiteRunOptions run;
  run.world = {.sites = 1, .ranks = 2};
  run.steps = 10;
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  run.model = [toy](int, int) { return std::make_unique<ToyModel>(toy); };
  run.guard = std::move(guard);
  return run;
}

TEST(Guard, StopsTheRunAtAUselessGradient) {
  const ToyOptions bad{.is_bad = [](std::uint64_t step) { return step == 6; }};
  EXPECT_EQ(run_sites(run_with({}, bad))[0].skipped, 1u);
  try {
    run_sites(run_with({.policy = GuardPolicy::stop}, bad));
    FAIL() << "it went on";
  } catch (const Spike& spike) {
    EXPECT_EQ(spike.step, 6u);
    EXPECT_NE(std::string(spike.what()).find("step 6: the gradient is not finite"),
              std::string::npos)
        << spike.what();
  }
}

TEST(Guard, LeavesOutTheStepsItIsTold) {
  const auto outcomes = run_sites(run_with({.policy = GuardPolicy::stop, .skip = {2, 5}}));
  EXPECT_EQ(outcomes[0].skipped, 2u);
  EXPECT_TRUE(outcomes[0].reports[2].skipped);
  EXPECT_TRUE(outcomes[0].reports[5].skipped);
  EXPECT_FALSE(outcomes[0].reports[6].skipped);
}

// Its gathers come with a flipped bit from some moment on.
class Damaged final : public Collective {
 public:
  Damaged(Collective& inner, const std::atomic<bool>& broken) : inner_(inner), broken_(broken) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override {
    inner_.reduce_scatter_mean(whole, mine, cuts);
  }
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override {
    inner_.all_gather(mine, whole, cuts);
    if (broken_ && whole.size() > 10'000) whole[5'000] += 1.0f;
  }
  void all_reduce_mean(Floats whole) override { inner_.all_reduce_mean(whole); }
  void broadcast(Floats data, int root) override { inner_.broadcast(data, root); }
  void barrier() override { inner_.barrier(); }
  Traffic traffic() const override { return inner_.traffic(); }

 private:
  Collective& inner_;
  const std::atomic<bool>& broken_;
};

TEST(Guard, NamesTheRankWhoseCopyDiffers) {
  std::atomic<bool> broken{false};
  SiteRunOptions run = run_with({.compare_every = 3});
  run.world.ranks = 3;
  run.near = [&](Collective& near, int rank) -> std::unique_ptr<Collective> {
    if (rank != 1) return nullptr;
    return std::make_unique<Damaged>(near, broken);
  };
  run_sites(run);
  run.before_step = [&](Trainer& trainer, LoopbackWorld&, int, int rank) {
    if (rank == 1 && trainer.steps_done() == 4) broken = true;
  };
  try {
    run_sites(run);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step 6: unit 1 differs between ranks of this site: most hold another one "
                        "than rank 1;"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace thinwire::test
