// What every optimizer must do, whatever its method. A method joins by its row in the catalog (with
// settings worth testing apart listed below).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimizers/catalog.h"
#include "src/codec/codec.h"
#include "src/core/site_math.h"
#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

struct Method {
  std::string name;
  std::map<std::string, std::string> settings = {};
};

// Runs here have some 20 steps.
std::map<std::string, std::string> for_a_short_run(const std::string& name) {
  Settings settings(name);
  optimizer_catalog().make(name, settings);
  if (settings.resolved().contains("h")) return {{"h", "2"}};
  if (name == "onebit_adam") return {{"warmup", "6"}};
  if (name == "powersgd") return {{"clip", "0"}};
  if (name == "topk") return {{"clip", "0"}, {"k", "410"}};
  return {};
}

std::vector<Method> methods() {
  std::vector<Method> all;
  for (const std::string& name : optimizer_catalog().names()) {
    all.push_back({name, for_a_short_run(name)});
  }
  all.push_back({"distro", {{"delay", "1"}}});
  all.push_back({"distro", {{"combine", "sites"}, {"k", "3"}}});
  all.push_back({"demo", {{"delay", "3"}, {"look_ahead", "2"}, {"k", "5"}}});
  all.push_back({"demo", {{"clip_to_median", "1"}, {"k", "64"}}});
  all.push_back({"demo", {{"apply", "rms"}, {"subtract", "0.2"}, {"signal", "lion"}}});
  all.push_back({"mural", {{"delay", "1"}, {"transform", "hadamard"}}});
  all.push_back({"mural", {{"delay", "2"}, {"transform", "none"}, {"signal", "adamw"}}});
  all.push_back(
      {"topk",
       {{"clip", "0"}, {"delay", "2"}, {"k", "800"}, {"signal", "sgd"}, {"momentum", "0.3"}}});
  all.push_back({"signum", {{"delay", "1"}}});
  all.push_back({"onebit_adam", {{"delay", "2"}, {"warmup", "5"}}});
  all.push_back({"powersgd", {{"rank", "40"}, {"min_saving", "0"}, {"rule", "adamw"}}});
  all.push_back({"diloco", {{"h", "1"}, {"outer", "adamw"}, {"outer_lr", "0.01"}}});
  all.push_back({"mural_local", {{"h", "4"}, {"delay", "2"}}});
  all.push_back({"streaming_diloco", {{"h", "4"}, {"delay", "1"}, {"merge", "drift"}}});
  all.push_back(
      {"sparseloco", {{"h", "3"}, {"delay", "2"}, {"outer", "lion"}, {"outer_lr", "0.01"}}});
  return all;
}

std::string name_of(const Method& method) {
  std::string text = method.name;
  for (const auto& [key, value] : method.settings) text += "_" + key + "_" + value;
  std::ranges::replace(text, '.', '_');
  return text;
}
// As SavedRun takes it.
std::string text_of(const Method& method) {
  std::string text = method.name;
  for (const auto& [key, value] : method.settings) text += ":" + key + "=" + value;
  return text;
}
void PrintTo(const Method& method, std::ostream* out) { *out << name_of(method); }
std::string label(const testing::TestParamInfo<Method>& info) { return name_of(info.param); }

class OptimizerSuite : public testing::TestWithParam<Method> {
 protected:
  static std::unique_ptr<Optimizer> make() {
    Settings settings(GetParam().name, GetParam().settings);
    return optimizer_catalog().make(GetParam().name, settings);
  }
  // For models of one unit, which cannot be taken in turn, and of low rank.
  static std::unique_ptr<Optimizer> make_for_one_unit() {
    Method method = GetParam();
    if (method.name == "streaming_diloco") method.settings["fragments"] = "1";
    if (method.name == "powersgd") method.settings["rank"] = "1";
    Settings settings(method.name, method.settings);
    return optimizer_catalog().make(method.name, settings);
  }
  static SiteRunOptions options(int sites, int ranks) {
    SiteRunOptions run;
    run.world = {.sites = sites, .ranks = ranks};
    run.optimizer = &OptimizerSuite::make;
    return run;
  }
  static void expect_equal_replicas(const std::vector<RankOutcome>& outcomes) {
    for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.hash, outcomes[0].hash);
  }
};

TEST_P(OptimizerSuite, ReplicasAreEqualToTheBit) {
  for (const auto& [sites, ranks] : {std::pair{1, 1}, {4, 1}, {2, 2}, {1, 4}, {3, 2}}) {
    expect_equal_replicas(run_sites(options(sites, ranks)));
  }
}

TEST_P(OptimizerSuite, ResultsDoNotDependOnRanksOfASite) {
  const std::uint64_t one = run_sites(options(2, 1))[0].hash;
  EXPECT_EQ(run_sites(options(2, 2))[0].hash, one);
  EXPECT_EQ(run_sites(options(2, 4))[0].hash, one);
}

TEST_P(OptimizerSuite, SameRunSameBits) {
  EXPECT_EQ(run_sites(options(3, 1))[0].hash, run_sites(options(3, 1))[0].hash);
}

TEST_P(OptimizerSuite, TheLossFalls) {
  SiteRunOptions run = options(3, 1);
  run.steps = 150;
  const std::vector<StepReport> reports = run_sites(run)[0].reports;
  EXPECT_LT(reports.back().loss, 0.8f * reports.front().loss);
}

TEST_P(OptimizerSuite, FrozenParametersStayAndIdleOnesStayFinite) {
  SiteRunOptions run = options(2, 2);
  run.at_end = [](Trainer& trainer, int, int) {
    const Layout& layout = trainer.layout();
    const Place& frozen = layout.place(layout.index_of("frozen"));
    const Units::Weights weights = trainer.units().weights(frozen.unit);
    const ConstFloats values = weights.at(frozen);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], noise(1000 + layout.index_of("frozen"), i));
    }
    for (float value : trainer.shard().params()) EXPECT_TRUE(std::isfinite(value));
  };
  run_sites(run);
}

// 1e37 is finite, but the transform of a tile of it is not.
TEST_P(OptimizerSuite, ASiteWithAUselessGradientIsSkippedAndTheOthersGoOn) {
  using Limits = std::numeric_limits<float>;
  for (float bad : {Limits::quiet_NaN(), Limits::infinity(), 1e37f}) {
    SiteRunOptions run = options(3, 2);
    run.model = [bad](int site, int rank) {
      ToyOptions toy{.site = site, .bad = bad};
      if (site == 1 && rank == 1)
        toy.is_bad = [](std::uint64_t step) { return step == 3 || step == 4; };
      return std::make_unique<ToyModel>(toy);
    };
    run.at_end = [](Trainer& trainer, int, int) {
      for (float value : trainer.shard().params()) EXPECT_TRUE(std::isfinite(value));
      for (const StateSpec& spec : trainer.shard().states()) {
        for (float value : trainer.shard().state(spec.name)) EXPECT_TRUE(std::isfinite(value));
      }
    };
    const std::vector<RankOutcome> outcomes = run_sites(run);
    expect_equal_replicas(outcomes);
    EXPECT_EQ(outcomes[2].skipped, 2u);
    EXPECT_EQ(outcomes[3].skipped, 2u);
    EXPECT_EQ(outcomes[0].skipped, 0u);
    EXPECT_TRUE(outcomes[2].reports[3].skipped);
    EXPECT_NE(outcomes[0].hash, run_sites(options(3, 2))[0].hash);
  }
}

TEST_P(OptimizerSuite, StepsInWhichNobodySpeaksLeaveResidualsAndReplicasAlone) {
  SiteRunOptions run = options(2, 1);
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(
        ToyOptions{.site = site, .is_bad = [](std::uint64_t step) { return step >= 2; }});
  };
  run.steps = 12;
  // By site: everything remembered after the last update was applied, and at the end.
  std::vector<std::vector<float>> before(2), after(2);
  const std::uint64_t settled = 2 + make()->traits().delay;
  const auto remembered = [](Trainer& trainer) {
    std::vector<float> all;
    for (const StateSpec& spec : trainer.shard().states()) {
      const ConstFloats state = trainer.shard().state(spec.name);
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  };
  run.before_step = [&](Trainer& trainer, LoopbackWorld&, int site, int) {
    if (trainer.steps_done() == settled) before[site] = remembered(trainer);
  };
  run.at_end = [&](Trainer& trainer, int site, int) { after[site] = remembered(trainer); };
  const std::vector<RankOutcome> outcomes = run_sites(run);
  expect_equal_replicas(outcomes);
  EXPECT_EQ(outcomes[0].skipped, 10u);
  EXPECT_FALSE(before[0].empty());
  EXPECT_EQ(before, after);
}

// Everything that an optimizer remembers is in the shard: another object goes on with the same
// bits.
TEST_P(OptimizerSuite, AnotherObjectGoesOnFromTheShard) {
  const Layout layout(awkward_parameters());
  const auto first = make();
  Shard shard(layout, 0, 1, first->traits().states);
  const auto play = [&](Optimizer& optimizer, Shard& on, std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t index = begin; index < end; ++index) {
      const Step step{.index = index, .lr = 0.01f, .norm = 1.0};
      optimizer.gradient_point(step, on);
      const std::vector<float> gradient = noise_vector(index, on.grad().size());
      std::copy(gradient.begin(), gradient.end(), on.grad().begin());
      std::vector<Contribution> heard;
      heard.push_back({0, optimizer.extract(step, on)});
      optimizer.apply(step, on, heard);
    }
  };
  play(*first, shard, 0, 5);
  Shard copy = shard;
  play(*first, shard, 5, 10);
  const auto second = make();
  play(*second, copy, 5, 10);
  EXPECT_EQ(row_hashes(shard), row_hashes(copy));
}

TEST_P(OptimizerSuite, UpdatesGoThroughTheCodecUnchanged) {
  const Layout layout(awkward_parameters());
  const auto optimizer = make();
  Shard shard(layout, 0, 1, optimizer->traits().states);
  const std::vector<float> gradient = noise_vector(5, shard.grad().size());
  Update update;
  for (std::uint64_t index = 0; update.empty() && index < 10; ++index) {
    const Step step{.index = index, .lr = 0.01f, .norm = 1.0};
    optimizer->gradient_point(step, shard);
    std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
    update = optimizer->extract(step, shard);
  }
  EXPECT_FALSE(update.empty());
  std::vector<std::uint32_t> tiles;
  for (const Tile& tile : shard.tiles()) tiles.push_back(tile.height * tile.width);
  const ::thinwire::Shape shape{shard.params().size(), tiles};
  const Result<Update> back = decode(encode(update, shape), shape);
  ASSERT_TRUE(back) << back.why();
  EXPECT_EQ(*back, update);
}

// One site is late for every third round: it takes its update back, and nobody's replica differs.
TEST_P(OptimizerSuite, ALateSiteIsLeftOutForEveryone) {
  if (make()->traits().meeting != Meeting::gather) return;  // all-reduce waits for everyone
  SiteRunOptions run = options(3, 2);
  run.world.link = LinkOptions{.rate = 1e9, .delay = 0.01};
  run.world.round_deadline_s = 1.0;
  run.before_step = [](Trainer& trainer, LoopbackWorld& world, int site, int rank) {
    // One late rank is enough: a site takes part with all of its ranks or with none.
    if (site == 2 && rank == 1 && trainer.steps_done() % 3 == 1) world.spend(site, rank, 5.0);
  };
  const std::vector<RankOutcome> outcomes = run_sites(run);
  expect_equal_replicas(outcomes);
  EXPECT_GE(outcomes[4].traffic.refused, 5u);
  // Rounds still in flight at the end may close before or after a rank counts.
  EXPECT_NEAR(static_cast<double>(outcomes[4].traffic.refused),
              static_cast<double>(outcomes[5].traffic.refused), make()->traits().delay);
  EXPECT_EQ(outcomes[0].traffic.refused, 0u);
}

TEST_P(OptimizerSuite, OneSiteOneRankAndTinyModels) {
  for (const ParameterSpec& spec : std::vector<ParameterSpec>{
           {"scalar", {}}, {"one", {1, 1}}, {"prime", {67}}, {"none", {0}}, {"row", {1, 200}}}) {
    SiteRunOptions run = options(1, 1);
    run.optimizer = &OptimizerSuite::make_for_one_unit;
    run.model = [&](int, int) {
      return std::make_unique<ToyModel>(ToyOptions{.parameters = {spec}});
    };
    run.steps = 5;
    EXPECT_EQ(run_sites(run)[0].skipped, 0u);
    run.world.ranks = 3;  // more ranks than tile rows: some shards are empty
    run.world.sites = 2;
    expect_equal_replicas(run_sites(run));
  }
}

// 20 steps in one go against 10, saved, and 10 more: parameters, residuals, updates in flight.
TEST_P(OptimizerSuite, ASavedRunGoesOnWithTheSameBits) {
  for (const auto& [sites, ranks] : {std::pair{1, 1}, {4, 1}, {2, 2}}) {
    const TemporaryDirectory dir;
    SavedRun run{.sites = sites, .ranks = ranks, .method = text_of(GetParam()), .dir = dir.path()};
    const std::uint64_t whole = run.train(0, 20);
    EXPECT_NE(whole, 0u);
    run.train(0, 10, 10);
    const FoundCheckpoint found = newest_checkpoint(dir.path());
    ASSERT_TRUE(found.checkpoint);
    run.checkpoint = &*found.checkpoint;
    EXPECT_EQ(run.train(10, 20), whole) << sites << " sites of " << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, OptimizerSuite, testing::ValuesIn(methods()), label);

}  // namespace
}  // namespace thinwire::test
