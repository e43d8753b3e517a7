// PowerSGD and 1-bit Adam: what is owed where a site is not heard, and that nothing is lost by it.
// (Against other methods: oracles_test.)
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/support/team.h"

namespace thinwire::test {
namespace {

using Vector = std::vector<double>;

Vector vector_of(ConstFloats values) { return {values.begin(), values.end()}; }

// ---- PowerSGD

// One site's two exchanges, with what a second one says in them.
class TwoSites {
 public:
  static constexpr std::size_t kFloats = 12 * 10 + 5;  // a matrix and a vector

  explicit TwoSites(const Set& more = {}) : layout_({{"w", {12, 10}}, {"b", {5}}}) {
    Set settings{{"rank", "2"}, {"clip", "0"}, {"momentum", "0"}};
    settings.insert(more.begin(), more.end());
    for (int s = 0; s < 2; ++s) {
      methods_.push_back(make(settings));
      shards_.emplace_back(layout_, 0, 1, methods_[0]->traits().states, true);
    }
    settings_ = settings;
  }
  static std::unique_ptr<Optimizer> make(const Set& settings) {
    Settings of_method("powersgd", settings);
    return optimizer_catalog().make("powersgd", of_method);
  }

  Shard& shard(int site) { return shards_.at(static_cast<std::size_t>(site)); }
  // Another object goes on with the shard of site 0 before the phase, as after a restart.
  void restart_before(int phase) { restart_ = phase; }

  // heard[phase]: is what site 0 says in it heard? It is skipped where `useless`.
  void step(const std::vector<float>& gradient, std::array<bool, 2> heard = {true, true},
            bool useless = false) {
    Step step{.index = index_++, .lr = 1.0f, .sites = 2, .norm = 1.0};
    std::array<Update, 2> said;
    for (int s = 0; s < 2; ++s) {
      std::copy(gradient.begin(), gradient.end(), shards_[s].grad().begin());
      if (s == 1 || !useless) said[s] = methods_[s]->extract(step, shards_[s]);
    }
    for (step.phase = 0; step.phase < 2; ++step.phase) {
      if (restart_ == step.phase) methods_[0] = make(settings_);
      std::vector<Contribution> all;
      if (!said[0].empty() && heard[step.phase]) all.push_back({0, said[0]});
      all.push_back({1, said[1]});
      if (!said[0].empty() && !heard[step.phase]) {
        methods_[0]->take_back(step, shards_[0], said[0]);
      }
      for (int s = 0; s < 2; ++s) said[s] = methods_[s]->apply(step, shards_[s], all);
    }
    EXPECT_TRUE(said[0].empty() && said[1].empty());
  }

 private:
  Layout layout_;
  Set settings_;
  std::vector<std::unique_ptr<Optimizer>> methods_;
  std::vector<Shard> shards_;
  std::uint64_t index_ = 0;
  int restart_ = -1;
};

// lr 1 and no momentum: the parameters are what was followed.
TEST(PowerSgd, WhatIsOwedIsWhatWasNotFollowed) {
  TwoSites sites;
  Vector given(TwoSites::kFloats, 0.0);
  for (std::uint64_t i = 0; i < 9; ++i) {
    const std::vector<float> gradient = noise_vector(i, TwoSites::kFloats);
    for (std::size_t j = 0; j < gradient.size(); ++j) given[j] += gradient[j];
    sites.step(gradient);
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const double followed = -sites.shard(0).params()[j];
      ASSERT_NEAR(followed + sites.shard(0).state("residual")[j], given[j], 1e-5);
      ASSERT_EQ(sites.shard(0).params()[j], sites.shard(1).params()[j]);
    }
  }
  EXPECT_EQ(sites.shard(0).state("residual")[TwoSites::kFloats - 1], 0.0f)
      << "a vector owes nothing";
}

TEST(PowerSgd, ASiteThatIsNotHeardOwesAllOfIt) {
  for (const auto& [first, second] : {std::pair{false, false}, {true, false}, {false, true}}) {
    SCOPED_TRACE(testing::Message() << first << second);
    TwoSites sites;
    sites.step(noise_vector(1, TwoSites::kFloats));
    const Vector before = vector_of(sites.shard(0).state("residual"));
    const std::vector<float> gradient = noise_vector(2, TwoSites::kFloats);
    sites.step(gradient, {first, second});
    const bool vector_heard = first;  // with the first exchange
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      const bool heard = j >= 120 && vector_heard;
      ASSERT_NEAR(sites.shard(0).state("residual")[j], heard ? 0.0 : before[j] + gradient[j], 1e-6)
          << j;
      ASSERT_EQ(sites.shard(0).params()[j], sites.shard(1).params()[j]);
    }
  }
}

TEST(PowerSgd, AUselessGradientLeavesWhatIsOwedAlone) {
  TwoSites sites;
  sites.step(noise_vector(1, TwoSites::kFloats));
  const Vector before = vector_of(sites.shard(0).state("residual"));
  sites.step(noise_vector(2, TwoSites::kFloats), {true, true}, true);
  EXPECT_EQ(vector_of(sites.shard(0).state("residual")), before);
}

// A run that is stopped while it waits for others goes on with the same bits.
TEST(PowerSgd, AnotherObjectGoesOnBetweenSayingAndHearing) {
  TwoSites whole, stopped;
  stopped.restart_before(0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    whole.step(noise_vector(i, TwoSites::kFloats));
    stopped.step(noise_vector(i, TwoSites::kFloats));
    for (const char* state : {"residual", "q"}) {
      ASSERT_EQ(vector_of(whole.shard(0).state(state)), vector_of(stopped.shard(0).state(state)));
    }
    ASSERT_EQ(vector_of(whole.shard(0).params()), vector_of(stopped.shard(0).params()));
  }
}

// A site that took the state over in the middle of a step has said nothing of what it then owes.
TEST(PowerSgd, ASiteWithoutStatesOfItsOwnOwesNothing) {
  TwoSites sites;
  sites.step(noise_vector(1, TwoSites::kFloats));
  sites.shard(0).state("said")[0] = 2.0f;  // and then:
  for (const StateSpec& spec : sites.shard(0).states()) {
    if (spec.kind == StateKind::own) std::ranges::fill(sites.shard(0).state(spec.name), 0.0f);
  }
  sites.step(noise_vector(2, TwoSites::kFloats), {true, true}, true);
  for (const float value : sites.shard(0).state("residual")) EXPECT_EQ(value, 0.0f);
}

// A gradient of rank 1, as in the first steps of many models, must not cost the second direction
// for ever.
TEST(PowerSgd, ADirectionThatWasEmptyOnceIsFoundLater) {
  TwoSites sites;
  std::vector<float> first(TwoSites::kFloats, 0.0f), second(TwoSites::kFloats, 0.0f);
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t j = 0; j < 10; ++j) {
      first[i * 10 + j] = noise(1, i) * noise(2, j);
      second[i * 10 + j] = first[i * 10 + j] + noise(3, i) * noise(4, j);
    }
  }
  for (int i = 0; i < 3; ++i) sites.step(first);
  for (int i = 0; i < 6; ++i) sites.step(second);
  double owed = 0.0;
  for (const float value : sites.shard(0).state("residual")) owed += std::fabs(value);
  EXPECT_LT(owed, 1e-3) << "of rank 2, like the gradient, Q loses nothing";
}

TEST(PowerSgd, GradientsOfZeroAreNoNoise) {
  TwoSites sites;
  const std::vector<float> none(TwoSites::kFloats, 0.0f);
  for (int i = 0; i < 3; ++i) sites.step(none);
  for (const float value : sites.shard(0).params()) EXPECT_EQ(value, 0.0f);
  sites.step(noise_vector(1, TwoSites::kFloats));
  for (const float value : sites.shard(0).params()) EXPECT_TRUE(std::isfinite(value));
}

// From outside, of a form that the frame allows and no site says.
TEST(PowerSgd, WordsOfAnotherLengthAreNotHeard) {
  const Layout layout({{"w", {12, 10}}, {"b", {5}}});
  const auto play = [&](const std::vector<Update>& strange) {
    const auto method = TwoSites::make({{"rank", "2"}});
    Shard shard(layout, 0, 1, method->traits().states, true);
    Step step{.lr = 1.0f, .sites = 2, .norm = 1.0};
    const std::vector<float> gradient = noise_vector(1, TwoSites::kFloats);
    std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
    Update said = method->extract(step, shard);
    for (step.phase = 0; step.phase < 2; ++step.phase) {
      std::vector<Contribution> heard{{0, said}};
      for (const Update& update : strange) heard.push_back({1, update});
      said = method->apply(step, shard, heard);
    }
    return vector_of(shard.params());
  };
  const Vector expected = play({});
  EXPECT_EQ(play({{.dense = std::vector<float>(3, 1.0f)}}), expected);
  EXPECT_EQ(play({{.dense = std::vector<float>(TwoSites::kFloats, 1.0f)}}), expected);
}

// ---- 1-bit Adam

TEST(OnebitAdam, WhatASiteSaidAndOwesIsItsMomentum) {
  Team team(two_units(), "onebit_adam", {{"warmup", "2"}, {"clip", "0"}}, 3, 0.01f);
  const std::size_t floats = team[0].shard.params().size();
  std::vector<Vector> said(3, Vector(floats, 0.0)), meant(3, Vector(floats, 0.0));
  while (team.steps() < 20) {
    const std::uint64_t step = team.steps();
    Fate fate;
    if (step == 5 || step == 6) fate.late = {1};
    if (step == 9) fate.useless = {0};
    const Vector m = vector_of(team[0].shard.state("m"));
    const Vector x = vector_of(team[0].shard.params());
    team.step(fate);
    if (step < 2) continue;
    for (const Contribution& one : team.heard()) {
      add_said(one.update, Coarse::sign, team[0].shard, said[one.site]);
    }
    for (int s = 0; s < 3; ++s) {
      double worst = 0.0, size = 0.0;
      for (std::size_t i = 0; i < floats; ++i) {
        const double g = static_cast<float>(x[i]) - team.target(s, i);
        if (!fate.useless.contains(s)) meant[s][i] += 0.9 * m[i] + 0.1 * g;
        const double kept = team[s].shard.state("error")[i];
        worst = std::max(worst, std::fabs(said[s][i] + kept - meant[s][i]));
        size = std::max(size, std::fabs(meant[s][i]));
      }
      ASSERT_LT(worst, 1e-5 * size) << "site " << s << ", step " << step;
    }
  }
}

TEST(OnebitAdam, WordsOfTheOtherHalfOfTheRunWeighNothing) {
  const Layout layout({{"w", {6, 5}}});
  const auto play = [&](bool strangers) {
    Settings settings("onebit_adam", {{"warmup", "1"}});
    const auto method = optimizer_catalog().make("onebit_adam", settings);
    Shard shard(layout, 0, 1, method->traits().states);
    for (std::uint64_t index = 0; index < 3; ++index) {
      const Step step{.index = index, .lr = 0.01f, .sites = 2, .norm = 1.0};
      const std::vector<float> gradient = noise_vector(index, 30);
      std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
      std::vector<Contribution> heard{{0, method->extract(step, shard)}};
      Update strange{.dense = std::vector<float>(30, 7.0f)};
      if (index == 0) {
        strange = {.picks = {.value_bits = 1,
                             .counts = {1},
                             .positions = {4095},
                             .codes = {1},
                             .scales = {9.0f}}};
      }
      if (strangers) heard.push_back({1, strange});
      method->apply(step, shard, heard);
    }
    return vector_of(shard.params());
  };
  EXPECT_EQ(play(true), play(false));
}

// Scales of outside may be as large as floats are; where no parameter follows, training goes on.
TEST(OnebitAdam, ScalesBeyondAllMeasureStopNobody) {
  const Layout layout({{"w", {6, 5}}});
  Settings settings("onebit_adam", {{"warmup", "1"}});
  const auto method = optimizer_catalog().make("onebit_adam", settings);
  Shard shard(layout, 0, 1, method->traits().states);
  for (std::uint64_t index = 0; index < 5; ++index) {
    const Step step{.index = index, .lr = 0.01f, .sites = 3, .norm = 1.0};
    std::ranges::fill(shard.grad(), 0.0f);
    std::vector<Contribution> heard{{0, method->extract(step, shard)}};
    for (const float scale : heard[0].update.picks.scales) EXPECT_TRUE(std::isfinite(scale));
    const Update huge{
        .picks = {
            .value_bits = 1, .counts = {1}, .positions = {0}, .codes = {0}, .scales = {3.4e38f}}};
    if (index == 1) heard.insert(heard.end(), {{1, huge}, {2, huge}});
    method->apply(step, shard, heard);
    for (const float value : shard.params()) EXPECT_EQ(value, 0.0f);
    for (const float value : shard.state("error")) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace thinwire::test
