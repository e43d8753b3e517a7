// Sites, hubs and what may happen between them: see tests/support/site_world.h.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/support/site_world.h"

namespace thinwire::hub {
namespace {

TEST(ZmqSite, AnUndisturbedRunHearsEveryoneInEveryRound) {
  for (std::uint64_t delay : {0u, 1u, 5u}) {
    World world({.delay = delay});
    world.run(60.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, BrokenConnectionsCostNothing) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 4, .seed = seed, .peer_timeout_s = 3.0});
    for (int i = 0; i < 400 && !world.done(); ++i) {
      world.step();
      if (world.chance(20) == 0) world.break_connection(static_cast<int>(world.chance(3)));
    }
    world.run(120.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, HubsThatDieAndComeBackLoseNoRound) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 3, .seed = seed, .peer_timeout_s = 2.0});
    for (int death = 0; death < 6; ++death) {
      for (std::uint64_t i = world.chance(80) + 20; i > 0; --i) world.step();
      world.kill_hub(0);
      for (std::uint64_t i = world.chance(60); i > 0; --i) world.step();
      world.start_hub(0);
    }
    world.run(120.0);
    world.expect_one_history(true);
  }
}

// The words of a repair go without delay, while rounds before them are still in flight.
TEST(ZmqSite, WordsWithoutDelayOvertakeRoundsInFlightAndNothingIsLost) {
  for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    World world({.delay = seed % 5, .seed = seed, .peer_timeout_s = 2.0, .words = 3});
    for (int i = 0; i < 400 && !world.done(); ++i) {
      world.step();
      if (world.chance(25) == 0) world.break_connection(static_cast<int>(world.chance(3)));
      if (world.chance(150) != 0) continue;
      world.kill_hub(0);
      for (std::uint64_t wait = world.chance(40); wait > 0; --wait) world.step();
      world.start_hub(0);
    }
    world.run(120.0);
    world.expect_one_history(false);
  }
}

// The run moves to the other hub and back again; each has an old memory of it.
TEST(ZmqSite, AHubWhoseSitesWereElsewhereBelievesThemAndNotItself) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    World world({.rounds = 600, .delay = seed % 3, .seed = seed, .hubs = 2});
    std::uint64_t before = 0;
    for (int turn = 0; turn < 4; ++turn) {
      for (std::uint64_t i = 100 + world.chance(60); i > 0; --i) world.step();
      for (int site = 0; site < 3; ++site) {
        world.cut(site, turn % 2);
        world.cut(site, 1 - turn % 2, false);
      }
      for (int i = 0; i < 700; ++i) world.step();
      EXPECT_GT(world.player(0).collected, before + 20) << "turn " << turn << ", seed " << seed;
      before = world.player(0).collected;
    }
    world.run(120.0);
    world.expect_one_history(true);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(world.player(i).takeovers, 0) << "seed " << seed;
  }
}

// Two of five reach one hub alone, three the other one: these go on, and when the cut is healed all
// are together again, whichever hub it is.
TEST(ZmqSite, OfTwoHalvesWithAHubEachOneGoesOn) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    World world({.sites = 5, .rounds = 1500, .delay = seed % 3, .seed = seed, .hubs = 2});
    for (std::uint64_t i = 60 + world.chance(80); i > 0; --i) world.step();
    const int of_two = static_cast<int>(seed % 2);
    for (int i = 0; i < 5; ++i) world.cut(i, i < 2 ? 1 - of_two : of_two);
    for (int i = 0; i < 500; ++i) world.step();
    const std::uint64_t two = world.player(0).collected;
    const std::uint64_t three = world.player(4).collected;
    for (int i = 0; i < 500; ++i) world.step();
    EXPECT_EQ(world.player(0).collected, two) << "two go on, seed " << seed;
    EXPECT_GT(world.player(4).collected, three + 20) << "three do not go on, seed " << seed;
    for (int i = 0; i < 5; ++i) {
      for (int hub = 0; hub < 2; ++hub) world.cut(i, hub, false);
    }
    const std::uint64_t healed = world.player(4).collected;
    for (int i = 0; i < 1500; ++i) world.step();
    EXPECT_GT(world.player(0).collected + 30, world.player(4).collected) << "seed " << seed;
    EXPECT_GT(world.player(4).collected, healed + 100) << "seed " << seed;
    world.expect_one_history_so_far();
  }
}

TEST(ZmqSite, AllMoveToTheNextHub) {
  for (std::uint64_t seed = 1; seed <= 50 && !HasFailure(); ++seed) {
    World world({.seed = seed, .hubs = 2});
    for (int i = 0; i < 120; ++i) world.step();
    world.kill_hub(0);
    world.run(60.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, AFrozenSiteCatchesUpAfterItsThaw) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 3, .seed = seed});
    for (int i = 0; i < 100; ++i) world.step();
    world.player(1).frozen = true;
    for (int i = 0; i < 250; ++i) world.step();
    if (seed % 2 == 0) world.break_connection(1);
    world.player(1).frozen = false;
    const std::uint64_t behind = world.player(1).collected;
    EXPECT_GT(world.player(0).collected, behind) << "the others went on";
    world.run(120.0);
    world.expect_one_history(false);
  }
}

// Hubs die, connections break, sites freeze, are killed and come back.
TEST(ZmqSite, AllTroublesAtOnceLeaveOneHistory) {
  int takeovers = 0;
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    World world({.sites = 4, .rounds = 400, .delay = seed % 3, .seed = seed, .rounds_kept = 16});
    int frozen = -1;
    int dead = -1;
    for (int i = 0; i < 1500 && world.player(0).collected < 200; ++i) {
      world.step();
      if (world.chance(250) == 0) {
        world.kill_hub(0);
        for (std::uint64_t wait = world.chance(40); wait > 0; --wait) world.step();
        world.start_hub(0);
      }
      if (world.chance(60) == 0) {
        const int one = static_cast<int>(world.chance(4));
        if (one != dead) world.break_connection(one);
      }
      if (world.chance(100) == 0 && dead >= 0) {
        world.start_site(dead);
        dead = -1;
      } else if (world.chance(200) == 0 && dead < 0 && world.holders() > 2) {
        dead = static_cast<int>(world.chance(4));
        if (dead == frozen) frozen = -1;
        world.kill_site(dead);
      }
      if (world.chance(150) != 0) continue;
      if (frozen >= 0) world.player(frozen).frozen = false;
      frozen = frozen < 0 ? static_cast<int>(world.chance(4)) : -1;
      if (frozen == dead) frozen = -1;
      if (frozen >= 0) world.player(frozen).frozen = true;
    }
    if (frozen >= 0) world.player(frozen).frozen = false;
    if (dead >= 0) world.start_site(dead);
    world.run(300.0);
    world.expect_one_history(false);
    for (int i = 0; i < 4; ++i) takeovers += world.player(i).takeovers;
  }
  EXPECT_GT(takeovers, 300);
}

TEST(ZmqSite, AKilledSiteComesBackWithTheRunsStateAndNobodyLosesARound) {
  for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    World world({.rounds = 500, .delay = seed % 4, .seed = seed});
    for (std::uint64_t i = 50 + world.chance(100); i > 0; --i) world.step();
    world.kill_site(1);
    for (std::uint64_t i = world.chance(300); i > 0; --i) world.step();
    world.start_site(1);
    world.run(120.0);
    EXPECT_GE(world.player(1).takeovers, 1);
    EXPECT_EQ(world.player(0).takeovers + world.player(2).takeovers, 0) << "seed " << seed;
    EXPECT_EQ(world.player(0).heard.size(), 500u);
    // It is in again: the last rounds have everybody.
    EXPECT_TRUE(world.player(0).heard[499][0].absent.empty()) << "seed " << seed << world.status();
    world.expect_one_history(false);
  }
}

// The run stands still with one site of two; the other one comes back into the step that it is in.
TEST(ZmqSite, ARunThatStandsStillGoesOnWhenASiteComesBack) {
  for (std::uint64_t seed = 1; seed <= 50 && !HasFailure(); ++seed) {
    World world({.sites = 2, .rounds = 60, .delay = seed % 4, .seed = seed, .min_sites = 2});
    for (int i = 0; i < 100; ++i) world.step();
    world.kill_site(1);
    for (int i = 0; i < 300; ++i) world.step();
    const std::uint64_t stood = world.player(0).collected;
    for (int i = 0; i < 300; ++i) world.step();
    EXPECT_EQ(world.player(0).collected, stood) << "goes on alone";
    EXPECT_LT(stood, 60u);
    world.start_site(1);
    const double back = world.now();
    while (world.now() < back + 4.0 && world.player(0).collected < stood + 6) world.step();
    EXPECT_GE(world.player(0).collected, stood + 6) << "rounds in flight wait for the deadline";
    world.run(60.0);
    world.expect_one_history(false);
    for (const auto& [round, results] : world.player(0).heard) {
      EXPECT_TRUE(results[0].absent.empty() || round + 2 + seed % 4 >= stood) << round;
    }
  }
}

TEST(ZmqSite, AFrozenSiteThatIsTooFarBehindTakesTheStateOver) {
  for (std::uint64_t seed = 1; seed <= 50 && !HasFailure(); ++seed) {
    World world({.rounds = 300, .delay = seed % 3, .seed = seed, .rounds_kept = 16});
    for (int i = 0; i < 100; ++i) world.step();
    world.player(1).frozen = true;
    for (int i = 0; i < 700; ++i) world.step();
    if (seed % 2 == 0) world.break_connection(1);
    world.player(1).frozen = false;
    world.run(120.0);
    EXPECT_EQ(world.player(1).takeovers, 1) << "seed " << seed;
    world.expect_one_history(false);
  }
}

// The state of 2 x 4 MB takes seconds; donors and hubs die under way, the chunks that came stay.
TEST(ZmqSite, ATakeoverOutlivesItsDonorsAndHubs) {
  for (std::uint64_t seed = 1; seed <= 12 && !HasFailure(); ++seed) {
    World world({.sites = 4, .rounds = 3000, .seed = seed, .state_bytes = 4'000'000});
    for (int i = 0; i < 50; ++i) world.step();
    world.kill_site(3);
    for (int i = 0; i < 150; ++i) world.step();
    world.start_site(3);
    const SiteState& state = world.player(3).site->state();
    const auto step_until = [&](double progress) {
      for (int i = 0; i < 5000 && state.progress() < progress && !HasFailure(); ++i) world.step();
      EXPECT_GE(state.progress(), progress) << "seed " << seed;
    };
    step_until(0.5);
    const std::uint64_t of_step = state.taking();
    if (seed % 3 == 0) {
      world.kill_hub(0);
      for (int i = 0; i < 30; ++i) world.step();
      world.start_hub(0);
    } else {
      world.kill_site(static_cast<int>(seed % 3) - 1 + static_cast<int>(seed % 2));
    }
    for (int i = 0; i < 5000 && world.player(3).takeovers == 0; ++i) {
      EXPECT_EQ(state.taking(), of_step) << "began anew, seed " << seed;
      world.step();
    }
    EXPECT_LT(state.bytes_received(), 8'500'000u) << "seed " << seed;
    EXPECT_EQ(world.player(3).takeovers, 1);
    for (int i = 0; i < 200; ++i) world.step();
    EXPECT_GT(world.player(3).heard.size(), 20u) << "seed " << seed;
    world.expect_one_history_so_far();
  }
}

TEST(ZmqSite, GivesUpWithoutAHubAndForgivesItsOwnSleep) {
  SiteOptions options{
      .site = "a", .hubs = {"x", "y"}, .peer_timeout_s = 1.0, .hub_timeout_s = 10.0};
  Site site(options, 0.0);
  double now = 0.0;
  const auto wait = [&](double most_s) {
    for (const double end = now + most_s; now < end && !site.failure();) {
      site.tick(now += 0.05);
      if (site.plan().connection != 0) site.lost("refused");
    }
  };
  site.tick(now);
  site.connected();
  site.receive(Welcome{.site = 0, .sites = 1, .hub = 1}, 0);
  wait(5.0);
  EXPECT_FALSE(site.failure());
  now += 100.0;  // the process was stopped
  wait(2.0);
  EXPECT_FALSE(site.failure());
  wait(4.0);
  ASSERT_TRUE(site.failure());
  EXPECT_TRUE(site.failure()->hub_lost);
  EXPECT_NE(site.failure()->why.find("tried x, y"), std::string::npos) << site.failure()->why;
}

// Ranks that compute for long, or a run that takes long to come to that step, are no reason to give
// up; that nobody gives the state is.
TEST(ZmqSite, WaitsForTheRunsStateAsLongAsItCanCome) {
  SiteOptions options{.site = "a", .hubs = {"x"}, .peer_timeout_s = 1.0, .hub_timeout_s = 10.0};
  for (const bool comes : {true, false}) {
    Site site(options, 0.0);
    double now = 0.0;
    std::uint64_t open = 5;
    const auto wait = [&](double most_s, bool goes_on) {
      for (const double end = now + most_s; now < end && !site.failure();) {
        site.tick(now += 0.5);
        if (goes_on && std::fmod(now, 8.0) == 0.0) ++open;
        site.receive(Pong{.epoch = 1, .next_round = open}, 0);
      }
    };
    site.tick(now);
    site.connected();
    site.receive(Welcome{.site = 0, .sites = 2, .hub = 1, .next_round = open, .takeover = 9}, 0);
    wait(30.0, true);
    ASSERT_FALSE(site.failure()) << "steps of 8 s";
    if (comes) {
      while (site.next_out()) {
      }
      const Bytes state(3);
      const std::uint64_t hash = hash64(ByteView(state));
      site.receive(Chunk{9, 0, 0, 0, 3, hash, hash, state}, 0);
      ASSERT_TRUE(site.state().complete());
    }
    wait(30.0, false);
    EXPECT_EQ(site.failure().has_value(), !comes);
  }
}

TEST(ZmqSite, TakesNoResultsWhileItCallsAndNoOtherRun) {
  Site site({.site = "a", .hubs = {"x"}}, 0.0);
  site.tick(0.0);
  site.connected();
  const Slot slot{{0, 0, 0}, Kind::gather, 0};
  site.rounds().wait_for(slot);
  site.receive(Closed{slot, false, {}, {0, 1}}, 0);
  EXPECT_FALSE(site.rounds().ready(slot));
  site.receive(Welcome{.site = 0, .sites = 2, .hub = 1}, 0);
  site.receive(Closed{slot, false, {}, {0, 1}}, 0);
  EXPECT_TRUE(site.rounds().ready(slot));
  site.receive(Missing{{{0, 7, 0}, Kind::gather, 0}}, 0);
  bool asks = false;
  while (const auto bytes = site.next_out()) {
    const Result<Message> said = decode(bytes->joined());
    asks = asks || (said && std::holds_alternative<Want>(*said));
  }
  EXPECT_TRUE(asks) << "it lacks what it is asked for, and says so";
  site.receive(Welcome{.site = 1, .sites = 5, .hub = 2, .takeover = 3}, 0);
  ASSERT_TRUE(site.failure()) << "a run of another size";
}

}  // namespace
}  // namespace thinwire::hub
