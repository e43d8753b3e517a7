// The order of events of a step, and the baseline against a plain formula.
#include "thinwire/trainer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "optimizers/adamw.h"
#include "optimizers/distro.h"
#include "optimizers/sgd.h"
#include "tests/support/site_run.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

std::vector<ParameterSpec> one_matrix() { return {{"w", {256, 40}}, {"b", {300}}}; }

SiteRunOptions adamw_run(int sites, int ranks) {
  SiteRunOptions run;
  run.world = {.sites = sites, .ranks = ranks};
  run.steps = 50;
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(ToyOptions{.site = site, .parameters = one_matrix()});
  };
  return run;
}

// The gradients of all sites in one process, AdamW in double, written down naively.
std::vector<double> adamw_reference(int sites, int steps, double lr) {
  const std::vector<ParameterSpec> specs = one_matrix();
  std::vector<double> x;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const std::size_t size = p == 0 ? 256 * 40 : 300;
    for (std::size_t i = 0; i < size; ++i) x.push_back(noise(1000 + p, i));
  }
  std::vector<double> m(x.size()), v(x.size()), g(x.size());
  for (int step = 0; step < steps; ++step) {
    double squares = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t p = i < 256 * 40 ? 0 : 1;
      const std::size_t at = p == 0 ? i : i - 256 * 40;
      g[i] = 0.0;
      for (int site = 0; site < sites; ++site) {
        const std::uint64_t of_site = 7919 + site * 104729 + step * 31 + p;
        g[i] += (x[i] - (3.0f * noise(77 + p, at) + 0.5f * noise(of_site, at))) / sites;
      }
      squares += g[i] * g[i];
    }
    const double clip = std::min(1.0, 1.0 / std::sqrt(squares));
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * clip * g[i];
      v[i] = 0.95 * v[i] + 0.05 * clip * clip * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(0.9, step + 1));
      const double v_hat = v[i] / (1 - std::pow(0.95, step + 1));
      x[i] -= lr * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * x[i]);
    }
  }
  return x;
}

TEST(Trainer, ShardedAdamwIsAdamwOnTheWholeBatch) {
  for (const auto& [sites, ranks] : {std::pair{1, 1}, {1, 4}, {4, 1}, {4, 4}, {3, 2}}) {
    const std::vector<double> expected = adamw_reference(sites, 50, 0.02f);
    const std::vector<float> got = parameters_after(adamw_run(sites, ranks));
    ASSERT_EQ(got.size(), expected.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - expected[i]));
    EXPECT_LT(worst, 1e-5) << sites << " x " << ranks;
  }
}

TEST(Trainer, SgdWithNesterovFollowsItsFormula) {
  SiteRunOptions run = adamw_run(2, 1);
  run.steps = 3;
  run.schedule.peak = 0.1f;
  run.optimizer = [] { return std::make_unique<Sgd>(Sgd::Options{.momentum = 0.9f}); };
  const std::vector<float> got = parameters_after(run);
  for (std::size_t i = 0; i < 300; ++i) {
    double x = noise(1001, i), m = 0.0;
    for (int step = 0; step < 3; ++step) {
      double g = 0.0;
      for (int site = 0; site < 2; ++site) {
        g +=
            0.5 * (x - (3.0 * noise(78, i) + 0.5 * noise(7919 + site * 104729 + step * 31 + 1, i)));
      }
      m = 0.9 * m + g;
      x -= 0.1 * (g + 0.9 * m);
    }
    EXPECT_NEAR(got[256 * 40 + i], x, 1e-5);
  }
}

// Site 2 sleeps in step 4 while the others close rounds without it.
SiteRunOptions sleepy_run(int ranks, int delay) {
  SiteRunOptions run;
  run.world = {.sites = 3, .ranks = ranks, .deadline = std::chrono::milliseconds(150)};
  run.steps = 16;
  run.optimizer = [delay] { return std::make_unique<Demo>(distro(delay)); };
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(ToyOptions{.site = site, .parameters = one_matrix()});
  };
  run.before_step = [](Trainer& trainer, LoopbackWorld&, int site, int) {
    if (site == 2 && trainer.steps_done() == 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
    }
  };
  return run;
}

TEST(Trainer, ASiteThatIsBehindAppliesTheRoundsItMissedWithoutAWord) {
  for (const auto& [ranks, delay] : {std::pair{1, 0}, {2, 0}, {1, 1}, {2, 3}}) {
    SiteRunOptions run = sleepy_run(ranks, delay);
    std::atomic<int> gradients = 0;
    run.model = [&](int site, int rank) {
      auto toy = ToyOptions{.site = site, .parameters = one_matrix()};
      if (site == 2 && rank == 0) toy.is_bad = [&](std::uint64_t) { return ++gradients < 0; };
      return std::make_unique<ToyModel>(toy);
    };
    const std::vector<RankOutcome> outcomes = run_sites(run);
    for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.hash, outcomes[0].hash);
    int caught_up = 0;
    for (std::uint64_t step = 0; step < run.steps; ++step) {
      const StepReport& report = outcomes[2 * ranks].reports[step];
      EXPECT_EQ(report.caught_up, outcomes[3 * ranks - 1].reports[step].caught_up) << step;
      EXPECT_EQ(std::isnan(report.loss), report.caught_up);
      EXPECT_TRUE(report.diverged.empty());
      caught_up += report.caught_up ? 1 : 0;
      EXPECT_FALSE(outcomes[0].reports[step].caught_up);
    }
    EXPECT_GE(caught_up, 2) << ranks << " ranks, delay " << delay;
    EXPECT_EQ(gradients, static_cast<int>(run.steps) - caught_up);
  }
}

TEST(Trainer, RefusesPartsThatDoNotFit) {
  LoopbackWorld world({.sites = 1, .ranks = 1});
  ToyModel model({});
  const TrainerOptions options{.schedule = {.shape = ScheduleShape::constant}};
  AllReduceSync reduce(world.far_collective(0, 0));
  DelayedSync gather(world.far(0, 0), {.delay = 0});
  Adamw adamw({});
  Demo delayed(distro(1));
  EXPECT_THROW(Trainer(model, world.near(0, 0), adamw, gather, options), UsageError);
  EXPECT_THROW(Trainer(model, world.near(0, 0), delayed, reduce, options), UsageError);
  EXPECT_THROW(Trainer(model, world.near(0, 0), delayed, gather, options), UsageError);
  TrainerOptions other_sites = options;
  other_sites.sites = 2;
  EXPECT_THROW(Trainer(model, world.near(0, 0), adamw, reduce, other_sites), UsageError);
  TrainerOptions bad = options;
  bad.schedule.peak = -1.0f;
  EXPECT_THROW(Trainer(model, world.near(0, 0), adamw, reduce, bad), UsageError);
}

// Says who it heard; used to see which rounds are applied when.
class Ages final : public Optimizer {
 public:
  explicit Ages(int delay) : delay_(delay) {}
  std::string_view name() const override { return "ages"; }
  Traits traits() const override { return {.delay = delay_}; }
  Update extract(const Step& step, Shard& shard) override {
    return {.dense = std::vector<float>(shard.params().size(), static_cast<float>(step.index))};
  }
  Update apply(const Step& step, Shard&, std::span<const Contribution> heard) override {
    if (step.index < static_cast<std::uint64_t>(delay_)) {
      EXPECT_TRUE(heard.empty());
      return {};
    }
    EXPECT_EQ(step.age, delay_);
    EXPECT_EQ(heard.size(), 2u);
    for (const Contribution& one : heard) {
      EXPECT_EQ(one.update.dense[0], static_cast<float>(step.index - delay_));
    }
    return {};
  }

 private:
  int delay_;
};

TEST(Trainer, AnUpdateIsAppliedDelayStepsLater) {
  for (int delay : {0, 1, 3, 8}) {
    SiteRunOptions run;
    run.world = {.sites = 2};
    run.optimizer = [=] { return std::make_unique<Ages>(delay); };
    run_sites(run);
  }
}

TEST(Trainer, SitesThatDisagreeRefuseEachOthersFrames) {
  LoopbackWorld world({.sites = 2});
  run_threads(2, [&](int site) {
    ToyModel model({.site = site});
    Demo optimizer(distro(0));
    DelayedSync sync(world.far(site, 0), {});
    TrainerOptions options{.schedule = {.shape = ScheduleShape::constant}, .sites = 2};
    options.settings = site == 0 ? "k=8" : "k=9";
    Trainer trainer(model, world.near(site, 0), optimizer, sync, options);
    EXPECT_EQ(trainer.step().heard, 1);  // its own alone
    EXPECT_EQ(sync.traffic().refused, 1u);
  });
}

// An all-reduce would average whatever it is given.
TEST(Trainer, SitesThatDisagreeDoNotAverage) {
  LoopbackWorld world({.sites = 2});
  run_threads(2, [&](int site) {
    ToyModel model({.site = site});
    Adamw optimizer({});
    AllReduceSync sync(world.far_collective(site, 0));
    TrainerOptions options{.schedule = {.shape = ScheduleShape::constant}, .sites = 2};
    options.settings = site == 0 ? "clip=1" : "clip=2";
    Trainer trainer(model, world.near(site, 0), optimizer, sync, options);
    EXPECT_THROW(trainer.step(), Error);
  });
}

// Fails while it holds a gradient, when the other rank of the site is in another operation.
class FailingModel final : public Model {
 public:
  explicit FailingModel(bool fails) : fails_(fails) {}
  std::vector<ParameterSpec> parameters() const override { return {{"w", {256, 64}}}; }
  void initialize(std::size_t, std::uint64_t, Floats) const override {}
  float loss_and_grad(Units& units, const Step&) override {
    if (!fails_) return units.weights(0), 0.0f;
    const Units::Gradient gradient = units.gradient(0);
    throw Error("the model broke");
  }

 private:
  bool fails_;
};

TEST(Trainer, AModelThatFailsWithAGradientInItsHandsMeetsNobody) {
  SiteRunOptions run;
  run.world = {.sites = 1, .ranks = 2};
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  run.model = [](int, int rank) { return std::make_unique<FailingModel>(rank == 1); };
  try {
    run_sites(run);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model broke");
  }
}

// One flipped bit in one parameter of one site is named by all sites with the next round that they
// hear, and mended in that step.
TEST(Trainer, ASiteWhoseParametersDifferIsNamedAndMended) {
  for (const int delay : {0, 1, 3}) {
    for (const int ranks : {1, 2}) {
      SiteRunOptions run;
      run.world = {.sites = 3, .ranks = ranks};
      run.steps = 12;
      run.optimizer = [=] { return std::make_unique<Demo>(distro(delay)); };
      const auto flip = [](Trainer& trainer, LoopbackWorld&, int site, int rank) {
        if (site != 2 || rank != 0 || trainer.steps_done() != 3) return;
        float& value = trainer.shard().params()[5];
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u << 20);
      };
      run.before_step = flip;
      const std::vector<RankOutcome> outcomes = run_sites(run);
      for (std::size_t i = 0; i < outcomes.size(); ++i) {
        EXPECT_EQ(outcomes[i].hash, outcomes[0].hash) << "rank " << i << ", delay " << delay;
        std::vector<std::uint64_t> named;
        for (const StepReport& report : outcomes[i].reports) {
          if (report.diverged.empty()) continue;
          named.push_back(report.index);
          EXPECT_EQ(report.diverged, std::vector<int>{2});
        }
        // Said up to the repair in step 3 + delay; rank 1 has another shard.
        const std::size_t rounds = i % static_cast<std::size_t>(ranks) == 0 ? 1u + delay : 0u;
        EXPECT_EQ(named.size(), rounds) << "rank " << i << ", delay " << delay;
        EXPECT_TRUE(named.empty() || named[0] == 3u + delay);
      }
    }
  }
}

// Two against one in every part of the replica, optimizer states too.
TEST(Trainer, AReducingSiteWhoseReplicaDiffersIsNamed) {
  SiteRunOptions run;
  run.world = {.sites = 3};
  run.steps = 6;
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  run.before_step = [](Trainer& trainer, LoopbackWorld&, int site, int) {
    if (site == 1 && trainer.steps_done() == 3) trainer.shard().params()[5] += 1e-3f;
  };
  const std::vector<RankOutcome> outcomes = run_sites(run);
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.reports[2].diverged.empty());
    EXPECT_EQ(outcome.reports[3].diverged, std::vector<int>{1});
  }
}

TEST(Trainer, AFailureInOneRankEndsTheOthersWithItsName) {
  SiteRunOptions run;
  run.world = {.sites = 2, .ranks = 2};
  run.optimizer = [] { return std::make_unique<Demo>(distro(0)); };
  run.before_step = [](Trainer& trainer, LoopbackWorld&, int site, int rank) {
    if (site == 1 && rank == 0 && trainer.steps_done() == 3)
      throw Error("the disk of site 1 is full");
  };
  try {
    run_sites(run);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk of site 1 is full");
  }
}

}  // namespace
}  // namespace thinwire::test
