// Methods that do not speak in every step: in the others nothing goes between the sites.
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "tests/support/rarely.h"
#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

SiteRunOptions rare_run(int sites, Rarely::Options method, std::uint64_t steps = 23) {
  SiteRunOptions run;
  run.world = {.sites = sites, .deadline = std::chrono::seconds(20)};
  run.steps = steps;
  run.optimizer = [method] { return std::make_unique<Rarely>(method); };
  return run;
}

void expect_equal(const std::vector<RankOutcome>& outcomes) {
  for (const RankOutcome& one : outcomes) EXPECT_EQ(one.hash, outcomes[0].hash);
}

// Bytes that site 0 has sent before each step, and at the end.
std::vector<std::uint64_t> bytes_by_step(SiteRunOptions& run, bool reduces) {
  std::vector<std::uint64_t> sent;
  const auto of_world = [reduces](LoopbackWorld& world) {
    return reduces ? world.far_collective(0, 0).traffic().bytes_sent
                   : world.far(0, 0).traffic().bytes_sent;
  };
  LoopbackWorld* kept = nullptr;
  run.before_step = [&](Trainer&, LoopbackWorld& world, int site, int rank) {
    if (site != 0 || rank != 0) return;
    kept = &world;
    sent.push_back(of_world(world));
  };
  run.at_end = [&](Trainer&, int site, int rank) {
    if (site == 0 && rank == 0) sent.push_back(of_world(*kept));
  };
  expect_equal(run_sites(run));
  return sent;
}

TEST(SilentSteps, CarryNoByte) {
  for (const auto& method :
       {Rarely::Options{}, Rarely::Options{.delay = 3}, Rarely::Options{.every = 2, .delay = 3},
        Rarely::Options{.meeting = Meeting::reduce}}) {
    SiteRunOptions run = rare_run(4, method);
    const auto sent = bytes_by_step(run, method.meeting == Meeting::reduce);
    ASSERT_EQ(sent.size(), run.steps + 1);
    for (std::uint64_t step = 0; step < run.steps; ++step) {
      EXPECT_EQ(sent[step + 1] > sent[step], (step + 1) % method.every == 0) << step;
    }
  }
}

TEST(SilentSteps, ApplyHearsWhatWasSaidDelayStepsBefore) {
  for (const int delay : {0, 3}) {
    SiteRunOptions run = rare_run(4, {.delay = delay});
    run.model = [](int site, int) {
      return std::make_unique<ToyModel>(
          ToyOptions{.site = site, .is_bad = [site](std::uint64_t step) {
                       return (site == 2 && step == 7) || (site == 1 && step == 9);
                     }});
    };
    run.at_end = [&](Trainer& trainer, int, int) {
      EXPECT_EQ(trainer.shard().state("beats")[0], static_cast<float>(run.steps));
    };
    const auto outcomes = run_sites(run);
    expect_equal(outcomes);
    EXPECT_EQ(outcomes[2].skipped, 1u);
    EXPECT_EQ(outcomes[1].skipped, 1u);
    for (std::uint64_t step = 0; step < run.steps; ++step) {
      const std::uint64_t said = step - static_cast<std::uint64_t>(delay);
      const int heard = said > step || (said + 1) % 5 != 0 ? 0 : said == 9 ? 3 : 4;
      EXPECT_EQ(outcomes[0].reports[step].heard, heard) << step << ", delay " << delay;
    }
  }
}

TEST(SilentSteps, TheNumberOfRanksChangesNothing) {
  for (const Meeting meeting : {Meeting::gather, Meeting::reduce}) {
    SiteRunOptions run = rare_run(2, {.meeting = meeting});
    const std::uint64_t expected = run_sites(run)[0].hash;
    run.world.ranks = 2;
    run.world.deadline = std::chrono::seconds(20);
    const auto outcomes = run_sites(run);
    expect_equal(outcomes);
    EXPECT_EQ(outcomes[0].hash, expected);
  }
}

TEST(SilentSteps, ASavedRunGoesOnBetweenTwoRounds) {
  for (const int delay : {0, 3}) {
    for (const std::uint64_t at : {5u, 6u, 7u, 8u, 9u, 10u}) {
      const TemporaryDirectory dir;
      SavedRun run{.sites = 3, .ranks = 2, .dir = dir.path()};
      run.other = [delay] { return std::make_unique<Rarely>(Rarely::Options{.delay = delay}); };
      const std::uint64_t whole = run.train(0, 17);
      run.train(0, at, at);
      const FoundCheckpoint found = newest_checkpoint(dir.path());
      ASSERT_TRUE(found.checkpoint);
      run.checkpoint = &*found.checkpoint;
      for (const int ranks : {2, 1, 4}) {
        run.ranks = ranks;
        EXPECT_EQ(run.train(at, 17), whole) << "step " << at << ", delay " << delay;
      }
      run.sites = 2;
      EXPECT_NE(run.train(at, 17), 0u);
    }
  }
}

// A flipped bit shows in the next round, which may be heard in a silent step.
TEST(SilentSteps, AReplicaIsMendedInThem) {
  for (const int delay : {0, 2, 3, 7}) {
    SiteRunOptions run = rare_run(3, {.delay = delay}, 40);
    run.before_step = [](Trainer& trainer, LoopbackWorld&, int site, int) {
      if (site != 2 || trainer.steps_done() != 11) return;
      float& value = trainer.shard().params()[5];
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u << 20);
    };
    const auto outcomes = run_sites(run);
    expect_equal(outcomes);
    EXPECT_EQ(outcomes[0].reports[14 + delay].diverged, std::vector<int>{2}) << delay;
  }
}

// The link is gone while a silent step waits for what was said before: its gradient is in the
// states, and is not taken again.
class BreakingExchange final : public Exchange {
 public:
  explicit BreakingExchange(Exchange& far) : far_(far) {}
  bool broken = false;
  int site() const override { return far_.site(); }
  int sites() const override { return far_.sites(); }
  void post(const Round& round, Bytes frame) override { far_.post(round, std::move(frame)); }
  RoundResult collect(const Round& round) override {
    if (broken) throw Error("gone");
    return far_.collect(round);
  }
  Traffic traffic() const override { return far_.traffic(); }

 private:
  Exchange& far_;
};

TEST(SilentSteps, OneThatFailedInItsWaitIsGoneOnWith) {
  for (const std::uint64_t at : {4u, 7u, 9u, 12u}) {  // waits are in steps 7 and 12
    const auto hash_of_run = [&](bool fails) {
      LoopbackWorld world({});
      BreakingExchange far(world.far(0, 0));
      ToyModel model({});
      Rarely method({.delay = 3});
      std::optional<Shard> saved;
      Progress progress;
      TrainerOptions options{.schedule = {.shape = ScheduleShape::constant, .peak = 0.02f}};
      {
        DelayedSync sync(far, {.delay = 3});
        Trainer trainer(model, world.near(0, 0), method, sync, options);
        while (trainer.steps_done() < (fails ? at : 17)) trainer.step();
        if (!fails) return trainer.state_hash();
        far.broken = true;
        if (at == 7 || at == 12) {
          EXPECT_THROW(trainer.step(), Error);
        }
        EXPECT_TRUE(trainer.progress());
        progress = *trainer.progress();
        EXPECT_EQ(progress.step, at);
        saved = trainer.shard();
      }
      far.broken = false;
      DelayedSync sync(far, {.delay = 3});
      options.start = [&](Shard& shard) {
        std::ranges::copy(saved->params(), shard.params().begin());
        for (const StateSpec& spec : shard.states()) {
          std::ranges::copy(saved->state(spec.name), shard.state(spec.name).begin());
        }
        return progress;
      };
      Trainer trainer(model, world.near(0, 0), method, sync, options);
      while (trainer.steps_done() < 17) trainer.step();
      return trainer.state_hash();
    };
    EXPECT_EQ(hash_of_run(true), hash_of_run(false)) << at;
  }
}

TEST(SilentSteps, AreCountedByTheRoundsBefore) {
  const Rarely method({.every = 3});
  const std::vector<std::uint64_t> expected{0, 0, 0, 1, 1, 1, 2};
  for (std::uint64_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(rounds_before(method, step, 2), expected[step]);
  }
}

// Says something in every step, and that it does not.
class Liar final : public Optimizer {
 public:
  std::string_view name() const override { return "liar"; }
  Traits traits() const override { return {}; }
  bool speaks(const Step&) const override { return false; }
  Update extract(const Step&, Shard&) override { return {.dense = {1.0f}}; }
  Update apply(const Step&, Shard&, std::span<const Contribution>) override { return {}; }
};

TEST(SilentStepsDeathTest, SayNothing) {
  SiteRunOptions run;
  run.optimizer = [] { return std::make_unique<Liar>(); };
  EXPECT_DEATH(run_sites(run), "broken promise");
}

}  // namespace
}  // namespace thinwire::test
