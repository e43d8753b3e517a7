// Local steps, site by site: the outer step, the merges, and sites that come and go. (Against other
// methods: oracles_test; that nothing is lost: local_keeping_test.)
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/site_run.h"
#include "tests/support/team.h"

namespace thinwire::test {
namespace {

// ---- the outer step

TEST(LocalSteps, ARoundMovesDownhill) {
  const std::map<std::string, Set> methods{{"diloco", {{"h", "4"}}},
                                           {"muloco", {{"h", "4"}}},
                                           {"streaming_diloco", {{"h", "4"}}},
                                           {"sparseloco", {{"h", "4"}}},
                                           {"mural_local", {{"h", "4"}}}};
  for (const auto& [name, settings] : methods) {
    if (name == "diloco" || name == "muloco") continue;  // means: below
    Team team(two_units(), name, settings, 3);
    const double before = team.loss();
    while (team.steps() < 4) team.step();
    EXPECT_LT(team.loss(), before) << name;
  }
  for (const char* name : {"diloco", "muloco"}) {
    SiteRunOptions run;
    run.world = {.sites = 3};
    run.steps = 5;
    run.optimizer = [&] {
      Settings settings(name, methods.at(name));
      return optimizer_catalog().make(name, settings);
    };
    // The loss of a step is that of the site's own weights, which are the anchor after a round.
    const auto reports = run_sites(run)[0].reports;
    EXPECT_LT(reports[4].loss, reports[0].loss) << name;
  }
}

// Anchor and its momentum by hand, in the paper's order: what x becomes after it does not matter.
TEST(LocalSteps, TheAnchorIsMovedBeforeTheMergeAndByTheWordsAlone) {
  for (const char* alpha : {"0", "0.5", "1"}) {
    Team team(
        {{"w", {6, 8}}}, "streaming_diloco",
        sgd_inside(
            {{"h", "3"}, {"fragments", "1"}, {"delay", "1"}, {"alpha", alpha}, {"code", "plain"}}),
        2);
    const std::size_t floats = 48;
    std::vector<double> a(team[0].shard.params().begin(), team[0].shard.params().end());
    std::vector<double> m(floats, 0.0);
    int rounds = 0;
    while (team.steps() < 16) {
      team.step();
      if (team.heard().empty()) continue;
      ++rounds;
      std::vector<double> sum(floats, 0.0);
      for (const Contribution& one : team.heard())
        add_said(one.update, Coarse::plain, team[0].shard, sum);
      for (std::size_t i = 0; i < floats; ++i) {
        const double delta = sum[i] / 2.0;
        m[i] = 0.9 * m[i] + delta;
        a[i] -= 0.7 * (delta + 0.9 * m[i]);
        ASSERT_NEAR(team[1].shard.params()[i], a[i], 2e-6) << alpha;
        const double x = team[1].local_before[i], mix = std::stod(alpha);
        ASSERT_NEAR(team[1].shard.state("local")[i], mix * x + (1.0 - mix) * a[i], 2e-6) << alpha;
        if (mix == 0.0) {
          ASSERT_EQ(team[1].shard.state("local")[i], team[1].shard.params()[i]);
        }
        if (mix == 1.0) {
          ASSERT_EQ(team[1].shard.state("local")[i], team[1].local_before[i]);
        }
      }
    }
    EXPECT_EQ(rounds, 5);
  }
}

// What a site hears of itself alone is where it has been: with any delay it goes its own way.
TEST(LocalSteps, TheDriftMergeKeepsTheWorkOfADelay) {
  const Set alone{
      {"h", "4"}, {"outer_lr", "1"}, {"outer_momentum", "0"}, {"code", "plain"}, {"alpha", "0"}};
  const auto local_after = [&](const Set& more) {
    Set settings = sgd_inside(alone);
    settings.insert(more.begin(), more.end());
    Team team(two_units(), "streaming_diloco", settings, 1);
    while (team.steps() < 30) team.step();
    const ConstFloats local = team[0].shard.state("local");
    return std::vector<float>(local.begin(), local.end());
  };
  const std::vector<float> expected = local_after({});
  double lost = 0.0;
  for (const char* delay : {"1", "2", "3"}) {
    const std::vector<float> kept = local_after({{"delay", delay}, {"merge", "drift"}});
    const std::vector<float> replaced = local_after({{"delay", delay}, {"merge", "alpha"}});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(kept[i], expected[i], 2e-6) << delay;
      lost = std::max(lost, std::fabs(static_cast<double>(replaced[i]) - expected[i]));
    }
  }
  EXPECT_GT(lost, 0.1) << "the other merge gives the steps of the delay up, as published";
}

// AdamW corrects the bias of its means by how often it has moved a value.
TEST(LocalSteps, EveryFragmentHasACountOfItsOwnInTheOuterRule) {
  Team team(two_units(), "streaming_diloco",
            sgd_inside({{"h", "4"},
                        {"fragments", "2"},
                        {"code", "plain"},
                        {"outer", "adamw"},
                        {"outer_lr", "0.01"}}),
            1);
  const ConstFloats params = team[0].shard.params();
  std::vector<double> a(params.begin(), params.end());
  std::vector<double> m(a.size(), 0.0), v(a.size(), 0.0);
  std::vector<int> moves(a.size(), 0);
  while (team.steps() < 12) {
    team.step();
    std::vector<double> said(a.size(), 0.0);
    for (const Contribution& one : team.heard()) {
      add_said(one.update, Coarse::plain, team[0].shard, said);
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (said[i] == 0.0) continue;
      ++moves[i];
      m[i] = 0.9 * m[i] + 0.1 * said[i];
      v[i] = 0.95 * v[i] + 0.05 * said[i] * said[i];
      const double rate = 0.01 / (1.0 - std::pow(0.9, moves[i]));
      a[i] -= rate * m[i] / (std::sqrt(v[i] / (1.0 - std::pow(0.95, moves[i]))) + 1e-8);
      ASSERT_NEAR(params[i], a[i], 2e-6) << i;
    }
  }
  EXPECT_EQ(moves, std::vector<int>(a.size(), 3));
}

// ---- whose turn it is

// Of the last step, tile by tile: was something said?
std::vector<bool> spoken_tiles(Team& team) {
  std::vector<bool> spoken(team[0].shard.tiles().size(), false);
  for (const Contribution& one : team.heard()) {
    for (std::size_t t = 0; t < spoken.size(); ++t) spoken[t] = one.update.picks.counts[t] > 0;
  }
  return spoken;
}

TEST(LocalSteps, UnitsOrTilesAreSaidInTurn) {
  // Two tiles and a vector's in unit 0, one and a vector's, of two rows, in unit 1.
  Team units(two_units(), "streaming_diloco", {{"h", "4"}, {"fragments", "2"}}, 2);
  Team tiles(two_units(), "mural_local", {{"h", "4"}}, 2);
  for (std::size_t step = 0; step < 12; ++step) {
    units.step();
    tiles.step();
    const bool first = step % 4 == 3, second = step % 4 == 1;
    EXPECT_EQ(spoken_tiles(units), (std::vector<bool>{first, first, first, second, second}))
        << step;
    std::vector<bool> expected(5, false);
    for (std::size_t t = 0; t < 5; ++t) expected[t] = t % 4 == (step + 1) % 4;
    EXPECT_EQ(spoken_tiles(tiles), expected) << step;
  }
}

// Such an update passes the codec and is of the method's form.
TEST(LocalSteps, StrangeWordsFromOutsideMoveNothingThatIsNotDue) {
  Settings settings("streaming_diloco", {{"h", "4"}, {"fragments", "2"}});
  const auto method = optimizer_catalog().make("streaming_diloco", settings);
  const Layout layout(two_units());
  Shard shard(layout, 0, 1, method->traits().states);
  const Step step{.index = 3, .sites = 2};  // unit 0 is due: tiles 0, 1 and 2
  Update strange;
  strange.picks.value_bits = 4;
  strange.picks.counts = {2, 0, 2, 0, 1};
  // Two values of a tile that is whole, two places in the padding, a tile that is not due.
  strange.picks.positions = {0, 4095, 9, 4095, 0};
  strange.picks.codes = {14, 15, 14, 14, 14};
  strange.picks.scales = {1.0f, 5.0f, 7.0f};
  method->apply(step, shard, std::vector<Contribution>{{1, strange}});
  const float moved = 0.5f * 0.7f * 1.9f;  // half of it, by Nesterov's first step
  for (std::size_t i = 0; i < shard.params().size(); ++i) {
    const float expected = i == 0 ? -moved : i == 63 * 70 + 63 ? moved : 0.0f;
    ASSERT_NEAR(shard.params()[i], expected, 1e-6f) << i;
  }
  strange.picks.scales.clear();  // allowed, and of no size
  const std::vector<float> before(shard.params().begin(), shard.params().end());
  std::ranges::fill(shard.state("outer_momentum"), 0.0f);
  method->apply(step, shard, std::vector<Contribution>{{1, strange}});
  EXPECT_EQ(std::vector<float>(shard.params().begin(), shard.params().end()), before);
}

// ---- sites that come and go

TEST(LocalSteps, ASiteThatTookTheStateOverBeginsAtTheAnchor) {
  for (const std::string name : {"mural_local", "sparseloco", "streaming_diloco"}) {
    Team team(two_units(), name, {{"h", "3"}, {"delay", "2"}}, 2);
    while (team.steps() < 8) team.step();
    Shard& shard = team[1].shard;
    for (const StateSpec& spec : shard.states()) {
      if (spec.kind == StateKind::own) std::ranges::fill(shard.state(spec.name), 0.0f);
    }
    team.step({.away = {1}});  // hears what was said before it came
    const std::vector<float> anchor(shard.params().begin(), shard.params().end());
    const ConstFloats waiting = shard.state("local");
    EXPECT_EQ(std::vector<float>(waiting.begin(), waiting.end()), anchor) << name;
    const ConstFloats point = team[1].optimizer->gradient_point({}, shard);
    EXPECT_EQ(std::vector<float>(point.begin(), point.end()), anchor) << name;
    while (team.steps() < 20) team.step();
    for (std::size_t i = 0; i < anchor.size(); ++i) {
      ASSERT_EQ(team[0].shard.params()[i], shard.params()[i]) << name;
    }
  }
}

// A useless gradient in the due step: the site says nothing, keeps its work and moves along.
TEST(LocalSteps, ASiteThatIsSkippedWhenItIsDueMovesAsTheAnchorDoes) {
  Team team(two_units(), "streaming_diloco",
            sgd_inside({{"h", "3"}, {"code", "plain"}, {"fragments", "1"}}), 2);
  while (team.steps() < 5) team.step();
  const std::vector<float> anchor(team[0].shard.params().begin(), team[0].shard.params().end());
  team.step({.useless = {0}});
  ASSERT_EQ(team.heard().size(), 1u);
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    const float moved = team[0].shard.params()[i] - anchor[i];
    ASSERT_EQ(team[0].shard.state("local")[i], team[0].local_before[i] + moved);
  }
}

TEST(LocalSteps, WeightsBeyondTheFloatsBeginAgainAtTheAnchorAndStopNobody) {
  for (const std::string name : {"mural_local", "sparseloco", "streaming_diloco"}) {
    Team team(two_units(), name, {{"h", "2"}}, 2);
    while (team.steps() < 3) team.step();
    for (const float bad : {INFINITY, NAN, 3e38f}) {
      team[0].shard.state("local")[3] = bad;
      team.step();
      team.step();
      for (int s = 0; s < 2; ++s) {
        for (const char* state : {"local", "residual"}) {
          if (state == std::string("residual") && name == "streaming_diloco") continue;
          for (const float value : team[s].shard.state(state))
            ASSERT_TRUE(std::isfinite(value)) << name;
        }
        for (const float value : team[s].shard.params()) ASSERT_TRUE(std::isfinite(value)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::test
