// Methods against each other and against plain arithmetic: settings under which two must agree.
// (DeMo's closed forms are in demo_test.)
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "optimizers/catalog.h"
#include "tests/support/site_run.h"

namespace thinwire::test {
namespace {

using Set = std::map<std::string, std::string>;

Set with(Set settings, const Set& more) {
  settings.insert(more.begin(), more.end());
  return settings;
}

SiteRunOptions run_of(const std::string& name, const Set& settings, int sites,
                      std::uint64_t steps = 12) {
  SiteRunOptions run;
  run.world = {.sites = sites};
  run.steps = steps;
  run.optimizer = [=] {
    Settings of_method(name, settings);
    return optimizer_catalog().make(name, of_method);
  };
  return run;
}

// Both also differ from where they began, or the comparison would say nothing.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected,
                 const std::vector<float>& begin, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  double worst = 0.0, moved = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double size = std::max(1.0, static_cast<double>(std::fabs(expected[i])));
    const double apart = std::fabs(static_cast<double>(got[i]) - expected[i]) / size;
    worst = std::isnan(apart) ? apart : std::max(worst, apart);
    moved = std::max(moved, std::fabs(static_cast<double>(expected[i]) - begin[i]));
    if (std::isnan(apart)) break;
  }
  EXPECT_LE(worst, tolerance);
  EXPECT_GT(moved, 0.01);
}

void expect_same(const SiteRunOptions& one, const SiteRunOptions& other, double tolerance = 1e-6) {
  SiteRunOptions none = one;
  none.steps = 0;
  expect_near(parameters_after(one), parameters_after(other), parameters_after(none), tolerance);
}

const Set kPlainSgd{{"inner", "sgd"}, {"momentum", "0"},      {"outer_lr", "1"},
                    {"h", "1"},       {"clip", "0"},          {"weight_decay", "0"},
                    {"alpha", "0"},   {"outer_momentum", "0"}};

TEST(Oracles, DilocoOfOneStepIsDataParallelSgd) {
  expect_same(run_of("diloco", kPlainSgd, 3), run_of("sgd", {{"momentum", "0"}}, 3));
}

TEST(Oracles, StreamingDilocoOfOneFragmentIsDiloco) {
  const Set outer{{"h", "3"}, {"alpha", "0"}};
  const Set plain{{"fragments", "1"}, {"delay", "0"}, {"code", "plain"}};
  expect_same(run_of("streaming_diloco", with(outer, plain), 3), run_of("diloco", outer, 3));
}

// Every h steps the weights of all sites are averaged; their momenta never are.
TEST(Oracles, SparselocoOfAllValuesAveragesWeights) {
  constexpr int kSites = 3, kEvery = 4;
  constexpr float kMomentum = 0.8f;
  Set settings = with({{"momentum", "0.8"}, {"h", "4"}}, kPlainSgd);
  settings = with(settings, {{"k", "4096"}, {"code", "plain"}, {"decay", "0"}});
  const SiteRunOptions run = run_of("sparseloco", settings, kSites);
  SiteRunOptions none = run;
  none.steps = 0;
  const std::vector<float> begin = parameters_after(none);
  std::vector<double> expected;
  const std::vector<ParameterSpec> parameters = awkward_parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto& shape = parameters[p].shape;
    const std::size_t size =
        std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    for (std::size_t i = 0; i < size && parameters[p].trainable; ++i) {
      double x[kSites], m[kSites] = {};
      for (double& value : x) value = noise(1000 + p, i);
      for (std::uint64_t step = 0; step < run.steps && parameters[p].name != "idle"; ++step) {
        double mean = 0.0;
        for (int s = 0; s < kSites; ++s) {
          const double g =
              x[s] - (3.0 * noise(77 + p, i) + 0.5 * noise(7919 + s * 104729 + step * 31 + p, i));
          m[s] = kMomentum * m[s] + g;
          x[s] -= run.schedule.peak * (g + kMomentum * m[s]);
          mean += x[s] / kSites;
        }
        if ((step + 1) % kEvery != 0) continue;
        for (double& value : x) value = mean;
      }
      expected.push_back(x[0]);
    }
  }
  // The frozen ones are not part of it.
  std::vector<float> got, started;
  const std::vector<float> all = parameters_after(run);
  std::size_t at = 0;
  for (const ParameterSpec& spec : parameters) {
    const std::size_t size =
        std::accumulate(spec.shape.begin(), spec.shape.end(), std::size_t{1}, std::multiplies<>());
    if (spec.trainable) {
      got.insert(got.end(), all.begin() + at, all.begin() + at + size);
      started.insert(started.end(), begin.begin() + at, begin.begin() + at + size);
    }
    at += size;
  }
  expect_near(got, std::vector<float>(expected.begin(), expected.end()), started, 2e-6);
}

TEST(Oracles, PowerSgdOfFullRankIsSgd) {
  const std::vector<ParameterSpec> parameters{
      {"wide", {12, 40}}, {"tall", {70, 12}}, {"table", {30, 12}, 0, true, true}, {"bias", {7}}};
  const auto model = [=](int site, int) {
    return std::make_unique<ToyModel>(ToyOptions{.site = site, .parameters = parameters});
  };
  const Set settings{
      {"rank", "12"}, {"min_saving", "0"}, {"rule", "sgd"}, {"momentum", "0.8"}, {"clip", "0"}};
  SiteRunOptions low = run_of("powersgd", settings, 3);
  SiteRunOptions full = run_of("sgd", {{"momentum", "0.8"}}, 3);
  low.model = full.model = model;
  expect_same(low, full, 2e-6);
}

// With everything said there is nothing owed, and nothing to look ahead to.
TEST(Oracles, ResidualMethodsThatSayEverythingAreTheirSignal) {
  const Set all{{"k", "4096"}, {"decay", "1"}, {"clip", "0"}, {"apply", "linear"}};
  const SiteRunOptions sgd = run_of("sgd", {{"momentum", "0"}}, 3);
  expect_same(run_of("topk", with(all, {{"signal", "gradient"}}), 3), sgd);
  expect_same(run_of("demo", with(all, {{"transform", "none"}}), 3), sgd);
  expect_same(run_of("demo", all, 3), sgd, 2e-6);
  const Set mural{{"bits", "32"}, {"signal", "sgd"}, {"momentum", "0.7"}, {"weight_decay", "0"}};
  expect_same(run_of("mural", with(all, mural), 3), run_of("sgd", {{"momentum", "0.7"}}, 3), 2e-6);
}

TEST(Oracles, ALocalMethodOfOneSiteIsItsInnerRule) {
  const Set outer{{"h", "1"}, {"outer_lr", "1"}, {"outer_momentum", "0"}, {"alpha", "0"}};
  expect_same(run_of("muloco", outer, 1, 6), run_of("muon", {}, 1, 6));
  expect_same(run_of("diloco", with(outer, {{"inner", "lion"}}), 1), run_of("lion", {}, 1));
  const Set plain = with(outer, {{"fragments", "1"}, {"code", "plain"}, {"k", "4096"}});
  expect_same(run_of("streaming_diloco", plain, 1), run_of("adamw", {}, 1));
  for (const char* decay : {"0.3", "1"}) {
    expect_same(run_of("sparseloco", with(plain, {{"decay", decay}}), 1), run_of("adamw", {}, 1));
  }
  expect_same(run_of("mural_local", plain, 1, 6), run_of("muon", {{"momentum", "0.9"}}, 1, 6),
              3e-6);
}

TEST(Oracles, PowerSgdThatCompressesNothingIsItsRule) {
  const Set settings{{"rule", "adamw"}, {"min_saving", "1000000"}, {"clip", "0"}};
  expect_same(run_of("powersgd", settings, 3),
              run_of("adamw", {{"clip", "0"}, {"weight_decay", "0"}}, 3));
}

TEST(Oracles, OnebitAdamIsAdamInItsWarmup) {
  expect_same(run_of("onebit_adam", {{"clip", "0"}, {"warmup", "12"}}, 3),
              run_of("adamw", {{"clip", "0"}}, 3));
  expect_same(run_of("onebit_adam", {{"warmup", "12"}}, 1), run_of("adamw", {}, 1));
}

// After it, with one site and v frozen: m = what was said, x by it.
TEST(Oracles, OnebitAdamAfterItsWarmupFollowsItsPaper) {
  const Layout layout({{"w", {3, 4}}});
  Settings settings("onebit_adam", {{"warmup", "1"}, {"weight_decay", "0.1"}, {"clip", "0"}});
  const auto optimizer = optimizer_catalog().make("onebit_adam", settings);
  Shard shard(layout, 0, 1, optimizer->traits().states);
  std::vector<double> x(12, 0.0), m(12, 0.0), v(12, 0.0), e(12, 0.0);
  for (std::uint64_t index = 0; index < 6; ++index) {
    const Step step{.index = index, .lr = 0.01f, .norm = 1.0};
    const std::vector<float> g = noise_vector(index, 12);
    std::copy(g.begin(), g.end(), shard.grad().begin());
    const std::vector<Contribution> heard{{0, optimizer->extract(step, shard)}};
    optimizer->apply(step, shard, heard);
    double size = 0.0;
    for (int i = 0; i < 12; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      if (index == 0) v[i] = g[i] * g[i];  // its bias is corrected
      e[i] += index == 0 ? 0.0 : m[i];
      size += std::fabs(e[i]) / 12;
    }
    for (int i = 0; i < 12; ++i) {
      if (index > 0) {
        m[i] = e[i] < 0.0 ? -size : size;
        e[i] -= m[i];
      }
      const double first = index == 0 ? 0.1 : 1.0;
      x[i] = (1.0 - 0.01 * 0.1) * x[i] - 0.01 * m[i] / first / (std::sqrt(v[i]) + 1e-8);
      EXPECT_NEAR(shard.params()[i], x[i], 1e-6 * std::max(1.0, std::fabs(x[i]))) << index;
    }
  }
}

TEST(Oracles, Dion2AndMuonWithoutMomentumAreOne) {
  const Set none{{"momentum", "0"}};
  expect_same(run_of("dion2", with(none, {{"fraction", "1"}}), 2, 6), run_of("muon", none, 2, 6));
}

}  // namespace
}  // namespace thinwire::test
