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
