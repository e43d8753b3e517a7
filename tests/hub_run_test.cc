// Whole runs over a simulated network: what every site gets must be the same, whatever happens.
#include <gtest/gtest.h>

#include "tests/support/hub_world.h"

namespace thinwire::test {
namespace {

// Every round of the plan has a verdict, and every site that finished got every one of them.
void expect_whole(HubWorld& world, const RunPlan& plan, std::uint64_t seed) {
  EXPECT_EQ(world.rounds(), plan.steps * plan.phases) << "seed " << seed;
  for (int i = 0; i < plan.sites; ++i) {
    SimSite& site = world.site(i);
    if (!site.alive) continue;
    EXPECT_EQ(site.stopped, "") << "site " << i << ", seed " << seed;
    EXPECT_EQ(site.results.size(), plan.steps * plan.phases) << "site " << i << ", seed " << seed;
    for (const auto& [key, included] : site.included) {
      const auto& absent = world.verdicts().at(key).absent;
      EXPECT_EQ(included, !std::count(absent.begin(), absent.end(), site.number))
          << "seed " << seed;
    }
  }
}

std::size_t left_out(const HubWorld& world) {
  std::size_t count = 0;
  for (const auto& [key, result] : world.verdicts()) count += result.absent.size();
  return count;
}

TEST(HubRun, ClosesEveryRoundWithEverybody) {
  for (const RunPlan& plan :
       {RunPlan{}, RunPlan{.sites = 1}, RunPlan{.sites = 5, .parts = 3}, RunPlan{.delay = 3},
        RunPlan{.parts = 2, .delay = 1, .phases = 2}, RunPlan{.kind = hub::Kind::reduce}}) {
    HubWorld world({.plan = plan});
    EXPECT_TRUE(world.run(1000));
    expect_whole(world, plan, 1);
    EXPECT_EQ(left_out(world), 0u);
  }
}

TEST(HubRun, GivesNumbersInTheOrderOfNames) {
  HubWorld world({.plan = {.sites = 4}});
  EXPECT_TRUE(world.run(1000));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(world.site(i).number, static_cast<std::uint32_t>(i));
}

TEST(HubRun, LeavesASlowSiteOutForEveryoneAndTellsIt) {
  const RunPlan plan{.sites = 3, .steps = 60};
  HubWorld world({.plan = plan});
  world.at(5, [&] { world.site(2).options.slower = 30; });
  EXPECT_TRUE(world.run(1000));
  expect_whole(world, plan, 1);
  SimSite& slow = world.site(2);
  const auto included = std::count_if(slow.included.begin(), slow.included.end(),
                                      [](const auto& entry) { return entry.second; });
  EXPECT_GT(included, 5);
  EXPECT_LT(included, 60);
  for (const auto& [key, result] : world.verdicts()) {
    EXPECT_TRUE(result.absent.empty() || result.absent == std::vector<std::uint32_t>{2});
  }
}

TEST(HubRun, SurvivesLossesAndRepeatedMessages) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RunPlan plan{
        .sites = 4, .parts = 1 + std::uint32_t(seed % 2), .steps = 30, .delay = seed % 3};
    HubWorld world({.seed = seed, .plan = plan, .delay_max_s = 0.5, .loss = 0.05, .repeat = 0.1});
    EXPECT_TRUE(world.run(10'000)) << "seed " << seed;
    expect_whole(world, plan, seed);
  }
}

TEST(HubRun, GoesOnWithoutADeadSiteInANewEpoch) {
  const RunPlan plan{.sites = 3, .steps = 100};
  HubWorld world({.plan = plan});
  double killed = 0, resumed = 0;
  world.at(6, [&] {
    world.site(1).alive = false;
    killed = world.now();
  });
  world.site(0).on_result = [&](const Result& result) {
    if (killed > 0 && resumed == 0 && !result.absent.empty()) resumed = world.now();
  };
  EXPECT_TRUE(world.run(1000));
  expect_whole(world, plan, 1);
  EXPECT_GT(resumed, killed);
  EXPECT_LT(resumed, killed + plan.peer_timeout_s + 1);
  EXPECT_EQ(world.site(0).epoch, 2u);
}

TEST(HubRun, LetsAFrozenSiteCatchUp) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const RunPlan plan{.sites = 3, .steps = 100, .delay = seed % 3};
    HubWorld world({.seed = seed, .plan = plan});
    world.at(5 + 0.1 * double(seed), [&] { world.freeze(world.site(1)); });
    world.at(25, [&] { world.thaw(world.site(1)); });
    EXPECT_TRUE(world.run(1000)) << "seed " << seed;
    expect_whole(world, plan, seed);
    EXPECT_GE(world.site(1).welcomes, 2);
    EXPECT_EQ(world.site(0).included.size(), plan.steps);
    EXPECT_TRUE(std::prev(world.site(1).included.end())->second) << "is in again, seed " << seed;
  }
}

// The hub is killed `times` times at random moments and started again, at once or seconds later.
void kill_hub_at_random(HubWorld& world, Dice& dice, int times) {
  double at = 0.5;
  for (int i = 0; i < times; ++i) {
    at += 6 * dice.uniform();
    world.at(at, [&world] { world.kill_hub(); });
    at += dice.uniform() < 0.3 ? 0.0 : 5 * dice.uniform();
    world.at(at, [&world] { world.start_hub(); });
  }
}

TEST(HubRun, LosesNothingWhenTheHubIsKilledAndStartedAgain) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const RunPlan plan{.sites = 2 + int(seed % 4),
                       .parts = 1 + std::uint32_t(seed % 3),
                       .steps = 40,
                       .delay = seed % 4,
                       .phases = 1 + std::uint32_t(seed % 5 == 0),
                       .kind = seed % 7 == 0 ? hub::Kind::reduce : hub::Kind::gather};
    WorldOptions options{.seed = seed, .plan = plan, .delay_max_s = 0.2};
    options.hub.shortest_s = 30;  // nobody is late: every contribution must be in
    HubWorld world(options);
    kill_hub_at_random(world, dice, 3);
    EXPECT_TRUE(world.run(3000)) << "seed " << seed;
    expect_whole(world, plan, seed);
    EXPECT_EQ(left_out(world), 0u) << "seed " << seed;
  }
}

TEST(HubRun, KeepsOneHistoryWhenTheHubIsKilledUnderLosses) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const RunPlan plan{.sites = 3 + int(seed % 2),
                       .parts = 1 + std::uint32_t(seed % 2),
                       .steps = 40,
                       .delay = seed % 3,
                       .phases = 1 + std::uint32_t(seed % 5 == 0)};
    HubWorld world({.seed = seed, .plan = plan, .delay_max_s = 0.3, .loss = 0.04, .repeat = 0.05});
    kill_hub_at_random(world, dice, 4);
    EXPECT_TRUE(world.run(10'000)) << "seed " << seed;
    expect_whole(world, plan, seed);
  }
}

TEST(HubRun, RestartedHubGoesOnWithoutASiteThatDied) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Dice dice(seed);
    const RunPlan plan{.sites = 4, .parts = 2, .steps = 60};
    HubWorld world({.seed = seed, .plan = plan});
    const double at = 4 + 4 * dice.uniform();
    world.at(at, [&] { world.kill_hub(); });
    world.at(at + dice.uniform(), [&] { world.site(3).alive = false; });
    world.at(at + 2, [&] { world.start_hub(); });
    EXPECT_TRUE(world.run(1000)) << "seed " << seed;
    expect_whole(world, plan, seed);
    EXPECT_EQ(world.site(2).number, 2u);
  }
}

// It may hold a result that nobody else got; the others had to decide that round without it.
TEST(HubRun, FrozenSiteThatOutlivesTheHubNeverBringsAnotherHistory) {
  int back = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Dice dice(seed);
    const RunPlan plan{.sites = 3, .parts = 2, .steps = 120, .delay = seed % 2};
    HubWorld world({.seed = seed, .plan = plan, .delay_max_s = 0.3, .loss = 0.05});
    const double at = 4 + 4 * dice.uniform();
    world.at(at, [&] { world.kill_hub(); });
    world.at(at, [&] { world.start_hub(); });
    world.at(at + 0.2 * dice.uniform(), [&] { world.freeze(world.site(1)); });
    world.at(at + 25, [&] { world.thaw(world.site(1)); });
    EXPECT_TRUE(world.run(10'000)) << "seed " << seed;
    EXPECT_EQ(world.rounds(), plan.steps) << "seed " << seed;
    if (world.site(1).stopped.empty()) {
      expect_whole(world, plan, seed);
      ++back;
    } else {
      EXPECT_EQ(world.site(1).stopped, "is to take the run's state over");
    }
  }
  EXPECT_GT(back, 80);
}

// What the second process does with the state is played by real sites in zmq_site_test.
TEST(HubRun, SecondProcessWithATakenNameIsRefusedUntilTheFirstIsDeadThenGetsTheState) {
  const RunPlan plan{.sites = 2, .steps = 200};
  HubWorld world({.plan = plan});
  SimSite* twin = nullptr;
  world.at(5, [&] { twin = &world.add_site({.name = "b"}); });
  world.at(8, [&] {
    EXPECT_NE(twin->last_refusal.find("already here"), std::string::npos) << twin->last_refusal;
    EXPECT_EQ(twin->welcomes, 0);
    world.site(1).alive = false;
  });
  world.run(30);
  EXPECT_GE(twin->welcomes, 1);
  EXPECT_TRUE(std::any_of(world.log().begin(), world.log().end(), [](const std::string& line) {
    return line.find("site b needs the run's state; it takes over") != std::string::npos;
  }));
}

}  // namespace
}  // namespace thinwire::test
