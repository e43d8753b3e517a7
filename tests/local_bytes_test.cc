// What local steps cost on the wire, against the formula.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/site_run.h"
#include "tests/support/team.h"

namespace thinwire::test {
namespace {

double log2_choices(int n, int k) {
  return (std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0)) / std::log(2.0);
}

// By step, of site 0.
std::vector<std::uint64_t> bytes_of(const std::string& name, const Set& settings,
                                    std::uint64_t steps) {
  SiteRunOptions run;
  run.world = {.sites = 2};
  run.steps = steps;
  run.optimizer = [&] {
    Settings of_method(name, settings);
    return optimizer_catalog().make(name, of_method);
  };
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(
        ToyOptions{.site = site, .parameters = {{"a", {512, 512}, 0}, {"b", {512, 512}, 1}}});
  };
  std::vector<std::uint64_t> sent;
  LoopbackWorld* kept = nullptr;
  run.before_step = [&](Trainer&, LoopbackWorld& world, int site, int) {
    if (site != 0) return;
    kept = &world;
    sent.push_back(world.far(0, 0).traffic().bytes_sent);
  };
  run.at_end = [&](Trainer&, int site, int) {
    if (site == 0) sent.push_back(kept->far(0, 0).traffic().bytes_sent);
  };
  run_sites(run);
  for (std::size_t i = 0; i + 1 < sent.size(); ++i) sent[i] = sent[i + 1] - sent[i];
  sent.pop_back();
  return sent;
}

void expect_bytes(const std::vector<std::uint64_t>& sent, std::uint64_t h, double bits_in_h_steps,
                  const std::set<std::uint64_t>& due) {
  double sum = 0.0;
  for (std::uint64_t step = 0; step < sent.size(); ++step) {
    EXPECT_EQ(sent[step] > 0, due.contains(step % h)) << step;
    sum += static_cast<double>(sent[step]);
  }
  const double expected = bits_in_h_steps / 8.0 * static_cast<double>(sent.size() / h);
  EXPECT_NEAR(sum, expected, 0.05 * expected);
}

TEST(LocalBytes, StreamingDilocoSaysFourBitsAValueEveryHSteps) {
  const double tiles = 128.0;
  const auto sent = bytes_of("streaming_diloco", {{"h", "4"}, {"fragments", "2"}}, 8);
  expect_bytes(sent, 4, tiles * (4096 * 4 + 32), {1, 3});
}

TEST(LocalBytes, SparselocoSaysTheChoiceTwoBitsAndAScaleEveryHSteps) {
  const double tiles = 128.0;
  for (const int k : {16, 64, 256}) {
    const auto sent = bytes_of("sparseloco", {{"h", "3"}, {"k", std::to_string(k)}}, 6);
    expect_bytes(sent, 3, tiles * (log2_choices(4096, k) + 2 * k + 32), {2});
  }
}

}  // namespace
}  // namespace thinwire::test
