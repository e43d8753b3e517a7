// Local steps lose nothing and count nothing twice: what the inner rule moved is heard by the
// others, owed, or still in the site's own weights.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "tests/support/site_run.h"
#include "tests/support/team.h"

namespace thinwire::test {
namespace {

// What is owed, by value: coefficients of no transform.
std::vector<double> owed(Shard& shard) {
  std::vector<double> values(shard.params().size(), 0.0);
  for (const StateSpec& spec : shard.states()) {
    if (spec.name != "residual") continue;
    for (const Tile& tile : shard.tiles()) {
      const ConstFloats of_tile = shard.state("residual").subspan(tile.coefficients);
      for (std::size_t r = 0; r < tile.height; ++r) {
        for (std::size_t c = 0; c < (r < tile.rows    ? tile.cols
                                     : r == tile.rows ? tile.tail
                                                      : 0);
             ++c) {
          values[tile.offset + r * tile.stride + c] = of_tile[r * tile.width + c];
        }
      }
    }
  }
  return values;
}

struct Case {
  std::string method;
  Set settings;
  Coarse coarse;
};

std::vector<Case> keeping_cases() {
  const Set outer{{"outer_lr", "1"}, {"outer_momentum", "0"}, {"h", "4"}, {"decay", "1"}};
  std::vector<Case> all;
  for (const std::string delay : {"0", "1", "3"}) {
    Set settings = sgd_inside(outer);
    settings.insert({{"delay", delay}, {"merge", "drift"}});
    for (const auto& [code, coarse] : {std::pair{"plain", Coarse::plain},
                                       {"sign", Coarse::sign},
                                       {"two_bit", Coarse::two_bit},
                                       {"e3m0", Coarse::e3m0}}) {
      Set sparse = settings;
      sparse.insert({{"code", code}, {"k", "100"}, {"fragments", "2"}});
      all.push_back({"sparseloco", sparse, coarse});
    }
    Set streaming = settings;
    streaming.insert({{"code", "plain"}, {"fragments", "2"}});
    all.push_back({"streaming_diloco", streaming, Coarse::plain});
  }
  return all;
}

// moved by the inner rule == heard by the others + owed + not handed over yet, at every site.
void expect_nothing_lost(Team& team, const std::vector<std::vector<double>>& said) {
  for (int s = 0; s < team.sites(); ++s) {
    Team::Site& site = team[s];
    const std::vector<double> kept = owed(site.shard);
    double worst = 0.0, size = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const double away =
          static_cast<double>(site.shard.params()[i]) - site.shard.state("local")[i];
      worst = std::max(worst, std::fabs(said[s][i] + kept[i] + away + site.moved[i]));
      size = std::max(size, std::fabs(static_cast<double>(site.moved[i])));
    }
    EXPECT_GT(size, 0.1);
    EXPECT_LT(worst, 1e-5 * size) << "site " << s << ", step " << team.steps();
  }
}

TEST(LocalKeeping, LateUselessAndAbsentStepsLoseNothing) {
  for (const Case& one : keeping_cases()) {
    SCOPED_TRACE(one.method + " " + one.settings.at("code") + " delay " + one.settings.at("delay"));
    Team team(two_units(), one.method, one.settings, 3);
    const std::size_t floats = team[0].shard.params().size();
    std::vector<std::vector<double>> said(3, std::vector<double>(floats, 0.0));
    std::vector<double> anchor(team[0].shard.params().begin(), team[0].shard.params().end());
    const auto begin = anchor;
    while (team.steps() < 44) {
      const std::uint64_t i = team.steps();
      // Fragments are due in steps 3, 7, .. and 1, 5, ..
      Fate fate;
      if (i == 7 || i == 13 || i == 27) fate.late = {1};
      if (i == 11 || i == 15) fate.useless = {0};
      if (i == 19) fate.late = {0, 1, 2};
      if (i >= 20 && i < 26) fate.away = {2};
      if (i > 40) fate.useless = {0, 1, 2};  // nothing is in flight at the end
      team.step(fate);
      for (const Contribution& heard : team.heard()) {
        add_said(heard.update, one.coarse, team[0].shard, said[heard.site]);
      }
    }
    expect_nothing_lost(team, said);
    for (std::size_t i = 0; i < floats; ++i) {
      const double mean = (said[0][i] + said[1][i] + said[2][i]) / 3.0;
      ASSERT_NEAR(team[0].shard.params()[i], begin[i] - mean, 2e-5);
      ASSERT_EQ(team[0].shard.params()[i], team[2].shard.params()[i]);
    }
  }
}

// A run that goes on with other sites hears nothing of what was in flight.
TEST(LocalKeeping, WhatIsInFlightWhenTheSitesChangeIsOwedOnce) {
  for (const Case& one : keeping_cases()) {
    if (one.settings.at("delay") == "0") continue;
    SCOPED_TRACE(one.method + " " + one.settings.at("code") + " delay " + one.settings.at("delay"));
    Team team(two_units(), one.method, one.settings, 2);
    std::vector<std::vector<double>> said(2, std::vector<double>(team[0].shard.params().size()));
    const auto play = [&](std::uint64_t end, const Fate& fate = {}) {
      while (team.steps() < end) {
        team.step(fate);
        for (const Contribution& heard : team.heard()) {
          add_said(heard.update, one.coarse, team[0].shard, said[heard.site]);
        }
      }
    };
    play(8);  // a word of step 7 is in flight
    team.take_all_back();
    play(8 + 3, {.useless = {0, 1}});
    expect_nothing_lost(team, said);
    play(20);
    play(24, {.useless = {0, 1}});
    expect_nothing_lost(team, said);
  }
}

// A method that keeps count of what it moved and said; the sum of both over a run.
struct Account {
  std::vector<double> moved, said;
};

class Counted final : public Optimizer {
 public:
  Counted(std::unique_ptr<Optimizer> method, Coarse coarse, Account& account)
      : method_(std::move(method)), coarse_(coarse), account_(account) {}
  std::string_view name() const override { return method_->name(); }
  Traits traits() const override { return method_->traits(); }
  bool speaks(const Step& step) const override { return method_->speaks(step); }
  Update extract(const Step& step, Shard& shard) override {
    const ConstFloats local = shard.state("local");
    const std::vector<float> before(local.begin(), local.end());
    Update update = method_->extract(step, shard);
    account_.moved.resize(before.size());
    account_.said.resize(before.size());
    for (std::size_t i = 0; i < before.size(); ++i) account_.moved[i] += local[i] - before[i];
    add_said(update, coarse_, shard, account_.said);
    return update;
  }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    return method_->apply(step, shard, heard);
  }
  void take_back(const Step& said, Shard& shard, const Update& unheard) override {
    add_said(unheard, coarse_, shard, account_.said, -1.0);
    method_->take_back(said, shard, unheard);
  }
  Floats gradient_point(const Step& step, Shard& shard) override {
    return method_->gradient_point(step, shard);
  }

 private:
  std::unique_ptr<Optimizer> method_;
  Coarse coarse_;
  Account& account_;
};

TEST(LocalKeeping, ASiteThatIsLateOverALinkLosesNothing) {
  for (const Case& one : keeping_cases()) {
    SCOPED_TRACE(one.method + " " + one.settings.at("code") + " delay " + one.settings.at("delay"));
    std::vector<Account> accounts(3);
    SiteRunOptions run;
    run.world = {
        .sites = 3, .link = LinkOptions{.rate = 1e9, .delay = 0.01}, .round_deadline_s = 1.0};
    run.steps = 24;
    std::mutex mutex;
    int made = 0;
    run.optimizer = [&]() -> std::unique_ptr<Optimizer> {
      Settings settings(one.method, one.settings);
      const std::lock_guard lock(mutex);
      return std::make_unique<Counted>(optimizer_catalog().make(one.method, settings), one.coarse,
                                       accounts[made++]);
    };
    // Its gradients end before the run does: nothing is in flight at the end.
    run.model = [](int site, int) {
      return std::make_unique<ToyModel>(ToyOptions{.site = site,
                                                   .is_bad = [](std::uint64_t s) { return s > 19; },
                                                   .parameters = two_units()});
    };
    run.before_step = [](Trainer& trainer, LoopbackWorld& world, int site, int) {
      const std::uint64_t step = trainer.steps_done();
      if (site == 2 && (step == 5 || step == 11)) world.spend(site, 0, 5.0);
    };
    std::uint64_t refused = 0;
    run.at_end = [&](Trainer& trainer, int, int) {
      const std::lock_guard lock(mutex);
      Shard& shard = trainer.shard();
      const std::vector<double> kept = owed(shard);
      // Whose account it is shows in what was moved.
      double best = 1e30, size = 0.0;
      for (const Account& account : accounts) {
        double worst = 0.0;
        for (std::size_t i = 0; i < kept.size(); ++i) {
          const double away = static_cast<double>(shard.params()[i]) - shard.state("local")[i];
          worst = std::max(worst, std::fabs(account.said[i] + kept[i] + away + account.moved[i]));
          size = std::max(size, std::fabs(account.moved[i]));
        }
        best = std::min(best, worst);
      }
      EXPECT_GT(size, 0.1);
      EXPECT_LT(best, 1e-5 * size);
    };
    for (const RankOutcome& outcome : run_sites(run)) refused += outcome.traffic.refused;
    EXPECT_GE(refused, 1u);
  }
}

}  // namespace
}  // namespace thinwire::test
