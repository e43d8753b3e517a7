// Budgets: how much a method says for so many bytes a step, or bits a second.
#include "optimizers/budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>

#include "optimizers/catalog.h"
#include "src/codec/codec.h"
#include "tests/support/site_run.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

using Given = std::map<std::string, std::string>;

Layout layout() { return Layout({{"a", {256, 256}, 0}, {"b", {512, 128}, 1}}); }

std::unique_ptr<Optimizer> make(const std::string& name, const Given& given) {
  Settings settings(name, given);
  return optimizer_catalog().make(name, settings);
}

// What one step of noise says, coded.
std::size_t coded_bytes(Optimizer& optimizer, Step step) {
  const Layout model = layout();
  Shard shard(model, 0, 1, optimizer.traits().states);
  const std::vector<float> gradient = noise_vector(3, shard.grad().size());
  std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
  step.norm = 1.0;
  const Update update = optimizer.extract(step, shard);
  const std::vector<std::uint32_t> tiles(shard.tiles().size(), 4096);
  return encode(update, {shard.params().size(), tiles}).size();
}

TEST(Budget, BytesAStepAreKeptAndUsed) {
  for (const double bytes : {200.0, 1000.0, 5000.0}) {
    const auto optimizer =
        make("distro", {{"k", "4096"}, {"bytes_per_step", std::to_string(bytes)}});
    const auto said = static_cast<double>(coded_bytes(*optimizer, {.lr = 0.01f}));
    // The coder is within 2 % of the entropy; one coefficient more a tile would not fit.
    EXPECT_LE(said, 1.02 * bytes + 32) << bytes;
    EXPECT_GE(said, 0.75 * bytes) << bytes;
  }
}

TEST(Budget, KIsTheMost) {
  const Layout model = layout();
  EXPECT_EQ(affordable(model, 8, 1, 1e9), 8);
  EXPECT_EQ(affordable(model, 8, 1, 0.0), 0);
  const int k = affordable(model, 4096, 1, 1000.0);
  EXPECT_GT(affordable(model, 4096, 1, 2000.0), k);
  EXPECT_LT(affordable(model, 4096, 32, 1000.0), k);
}

TEST(Budget, ABudgetThatPaysForNothingIsRefused) {
  const auto optimizer = make("mural", {{"bytes_per_step", "10"}});
  try {
    coded_bytes(*optimizer, {.lr = 0.01f});
    FAIL() << "was not refused";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("bytes_per_step does not pay for one coefficient"),
              std::string::npos)
        << error.what();
  }
}

// 8000 bits a second and one second of computing: 1000 bytes.
TEST(Budget, BitsASecondFollowTheTimeOfAStep) {
  const auto optimizer = make("mural", {{"k", "4096"}, {"bits_per_second", "8000"}});
  EXPECT_TRUE(optimizer->traits().wants_time);
  const std::size_t first = coded_bytes(*optimizer, {.lr = 0.01f, .compute_s = 0.0});
  const std::size_t one = coded_bytes(*optimizer, {.lr = 0.01f, .compute_s = 1.0});
  const std::size_t four = coded_bytes(*optimizer, {.lr = 0.01f, .compute_s = 4.0});
  EXPECT_LT(first, 100u);  // one coefficient a tile until a step has been timed
  EXPECT_NEAR(static_cast<double>(one), 1000.0, 250.0);
  EXPECT_NEAR(static_cast<double>(four), 4000.0, 400.0);
  EXPECT_FALSE(make("mural", {})->traits().wants_time);
}

// Sites with budgets of their own say more or less, also late ones, and end with the same bits.
TEST(Budget, SitesThatSayMoreOrLessStayEqual) {
  SiteRunOptions run;
  run.world = {
      .sites = 3, .link = LinkOptions{.rate = 1e9, .delay = 0.01}, .round_deadline_s = 1.0};
  std::atomic<int> made = 0;
  run.optimizer = [&] {
    const int bytes = 200 * (1 + made++);
    return make("mural", {{"k", "64"}, {"delay", "1"}, {"bytes_per_step", std::to_string(bytes)}});
  };
  run.before_step = [](Trainer& trainer, LoopbackWorld& world, int site, int rank) {
    if (site == 2 && trainer.steps_done() % 4 == 1) world.spend(site, rank, 5.0);
  };
  const std::vector<RankOutcome> outcomes = run_sites(run);
  for (const RankOutcome& one : outcomes) EXPECT_EQ(one.hash, outcomes[0].hash);
  EXPECT_GT(outcomes[2].traffic.refused, 2u);
  std::set<std::uint64_t> sent;
  for (const RankOutcome& one : outcomes) sent.insert(one.traffic.bytes_sent);
  EXPECT_EQ(sent.size(), 3u);
}

}  // namespace
}  // namespace thinwire::test
