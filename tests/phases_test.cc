// Methods with several exchanges in a step: every site takes part in each of them.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>

#include "tests/support/site_run.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

// What all sites of a run have heard and taken back, by (step, phase).
struct Notes {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, int>, std::vector<int>> heard;  // contributions, a site each
  std::map<std::pair<std::uint64_t, int>, int> unheard;
};

// Says 1, then how many said so, as fewer values than the shard has floats, and in every fourth
// step nothing; moves by the second answers.
class TwoPhases final : public Optimizer {
 public:
  using Between = std::function<void(const Step&)>;
  TwoPhases(Notes& notes, Between between, Traits traits = {.phases = 2})
      : notes_(notes), between_(std::move(between)), traits_(std::move(traits)) {}
  std::string_view name() const override { return "two_phases"; }
  Traits traits() const override { return traits_; }
  Update extract(const Step& step, Shard&) override {
    EXPECT_EQ(step.phase, 0);
    return {.dense = {1.0f}};
  }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    float sum = 0.0f;
    for (const Contribution& one : heard) sum += one.update.dense.at(0);
    {
      std::lock_guard lock(notes_.mutex);
      notes_.heard[{step.index, step.phase}].push_back(static_cast<int>(heard.size()));
    }
    if (step.phase == 0) {
      if (between_) between_(step);
      return step.index % 4 == 3 ? Update{} : Update{.dense = {sum, -1.0f}};
    }
    for (float& value : shard.params()) value -= 0.01f * sum;
    return {};
  }
  void take_back(const Step& said, Shard&, const Update& unheard) override {
    std::lock_guard lock(notes_.mutex);
    ++notes_.unheard[{said.index, said.phase}];
    EXPECT_EQ(unheard.dense.size(), said.phase == 0 ? 1u : 2u);
  }

 private:
  Notes& notes_;
  Between between_;
  Traits traits_;
};

TEST(Phases, EverySiteTakesPartInEachWhateverItHasToSay) {
  Notes notes;
  SiteRunOptions run;
  run.world = {.sites = 3,
               .deadline = std::chrono::seconds(20),
               .link = LinkOptions{.delay = 0.01},
               .round_deadline_s = 1.0};
  run.steps = 10;
  thread_local std::function<void(double)> work;  // of the site whose thread this is
  run.before_step = [&](Trainer& trainer, LoopbackWorld& world, int site, int) {
    work = site == 2 ? [&world](double seconds) { world.spend(2, 0, seconds); }
                     : std::function<void(double)>([](double) {});
    if (trainer.steps_done() == 5) work(1.5);  // late in the first phase
  };
  const auto between = [](const Step& step) {
    if (step.index == 8) work(1.5);  // late in the second
  };
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(ToyOptions{
        .site = site, .is_bad = [site](std::uint64_t step) { return site == 1 && step == 2; }});
  };
  run.optimizer = [&] { return std::make_unique<TwoPhases>(notes, between); };
  const auto outcomes = run_sites(run);
  EXPECT_EQ(outcomes[1].hash, outcomes[0].hash);
  EXPECT_EQ(outcomes[2].hash, outcomes[0].hash);
  EXPECT_EQ(outcomes[1].skipped, 1u);
  using Each = std::vector<int>;
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    const int first = step == 2 || step == 5 ? 2 : 3;
    EXPECT_EQ((notes.heard[{step, 0}]), Each(3, first)) << step;
    const int second = step % 4 == 3 ? 0 : step == 8 ? 2 : 3;
    EXPECT_EQ((notes.heard[{step, 1}]), Each(3, second)) << step;
    EXPECT_EQ(outcomes[0].reports[step].heard, first) << step;
  }
  EXPECT_EQ(notes.unheard.size(), 2u);
  EXPECT_EQ((notes.unheard[{5, 0}]), 1);
  EXPECT_EQ((notes.unheard[{8, 1}]), 1);
}

TEST(Phases, AreRefusedWhereTheyCannotBe) {
  const auto run = [](Traits traits) {
    Notes notes;
    SiteRunOptions options;
    options.world = {.sites = 2};
    options.steps = 1;
    options.optimizer = [&] { return std::make_unique<TwoPhases>(notes, nullptr, traits); };
    run_sites(options);
  };
  EXPECT_THROW(run({.delay = 1, .phases = 2}), UsageError);
  EXPECT_THROW(run({.meeting = Meeting::reduce, .phases = 2}), UsageError);
  EXPECT_THROW(run({.phases = 0}), UsageError);
  EXPECT_THROW(run({.phases = 65}), UsageError);
  EXPECT_NO_THROW(run({.phases = 2}));
}

TEST(PhasesDeathTest, TheLastOneSaysNothing) {
  Notes notes;
  SiteRunOptions run;
  run.optimizer = [&] { return std::make_unique<TwoPhases>(notes, nullptr, Traits{.phases = 1}); };
  EXPECT_DEATH(run_sites(run), "broken promise");
}

}  // namespace
}  // namespace thinwire::test
