// How a site holds its replica changes memory and traffic, and no bit of what is trained.
#include <gtest/gtest.h>

#include <cmath>

#include "models/gpt.h"
#include "models/text.h"
#include "optimizers/adamw.h"
#include "optimizers/distro.h"
#include "src/core/wrap.h"
#include "tests/support/site_run.h"
#include "tests/support/whole_matrices.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

constexpr Sharding kAll[] = {Sharding::none, Sharding::optimizer, Sharding::gradient,
                             Sharding::full};

std::unique_ptr<Optimizer> adamw() { return std::make_unique<Adamw>(Adamw::Options{}); }
std::unique_ptr<Optimizer> distro() { return std::make_unique<Demo>(thinwire::distro(1)); }

// Two ranks or more with data of their own.
SiteRunOptions toy_run(int ranks, const SiteOptions& inside) {
  SiteRunOptions run;
  run.world = {.sites = 1, .ranks = ranks};
  run.steps = 6;
  run.inside = inside;
  run.optimizer = adamw;
  run.model = [](int, int rank) { return std::make_unique<ToyModel>(ToyOptions{.site = rank}); };
  return run;
}

const Text& words() {
  static const Text text = [] {
    std::vector<std::uint8_t> bytes;
    for (int i = 0; i < 20'000; ++i) bytes.push_back(static_cast<std::uint8_t>(i * i % 97 + 32));
    return Text::from_bytes(bytes);
  }();
  return text;
}

SiteRunOptions gpt_run(int ranks, const SiteOptions& inside, std::size_t batch = 8) {
  SiteRunOptions run;
  run.world = {.sites = 1, .ranks = ranks};
  run.steps = 4;
  run.inside = inside;
  run.optimizer = distro;
  run.model = [=](int, int rank) {
    GptOptions options = GptOptions::preset("nano");
    options.context = 16;
    options.frozen = {"wpe"};
    return std::make_unique<Gpt>(
        options, words(),
        BatchOptions{.global_batch = batch,
                     .part = static_cast<std::size_t>(rank),
                     .parts = static_cast<std::size_t>(ranks),
                     .micro_batches = static_cast<std::size_t>(inside.accumulate)});
  };
  return run;
}

TEST(Sharding, NoStrategyAndNoPrefetchChangesABit) {
  for (const int ranks : {2, 4}) {
    const std::uint64_t expected = run_sites(toy_run(ranks, {.prefetch = false}))[0].hash;
    const std::uint64_t of_gpt = run_sites(gpt_run(ranks, {.prefetch = false}))[0].hash;
    for (const Sharding sharding : kAll) {
      for (const bool prefetch : {false, true}) {
        const SiteOptions inside{.sharding = sharding, .prefetch = prefetch};
        for (const RankOutcome& rank : run_sites(toy_run(ranks, inside))) {
          EXPECT_EQ(rank.hash, expected) << to_string(sharding) << prefetch;
        }
        EXPECT_EQ(run_sites(gpt_run(ranks, inside))[0].hash, of_gpt) << to_string(sharding);
      }
    }
  }
}

TEST(Sharding, ForOneGradientTheNumberOfRanksChangesNoBit) {
  for (const auto& make : {adamw, distro}) {
    std::uint64_t expected = 0;
    for (const int ranks : {1, 2, 4}) {
      for (const Sharding sharding : kAll) {
        SiteRunOptions run = toy_run(ranks, {.sharding = sharding, .clip = 3.0f});
        run.model = [](int, int) { return std::make_unique<ToyModel>(ToyOptions{}); };
        run.optimizer = make;
        const std::uint64_t hash = run_sites(run)[0].hash;
        if (expected == 0) expected = hash;
        EXPECT_EQ(hash, expected) << ranks << " ranks, " << to_string(sharding);
      }
    }
  }
}

TEST(Sharding, WholeMatricesTrainTheSameOnAnyNumberOfRanks) {
  std::uint64_t expected = 0;
  for (const int ranks : {1, 2, 3, 8}) {
    for (const Sharding sharding : {Sharding::optimizer, Sharding::gradient, Sharding::full}) {
      SiteRunOptions run;
      run.world = {.sites = 2, .ranks = ranks};
      run.steps = 6;
      run.inside = {.sharding = sharding, .reduce = NearType::bf16};  // exact for equal ranks
      run.optimizer = [] { return std::make_unique<Normalised>(Normalised::Options{}); };
      for (const RankOutcome& rank : run_sites(run)) {
        if (expected == 0) expected = rank.hash;
        EXPECT_EQ(rank.hash, expected) << ranks << " ranks, " << to_string(sharding);
      }
    }
  }
}

TEST(Sharding, SitesMayShareTheirReplicaEachInItsOwnWay) {
  SiteRunOptions run;
  run.world = {.sites = 2, .ranks = 2};
  run.steps = 5;
  run.optimizer = distro;
  const std::uint64_t expected = run_sites(run)[0].hash;
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradient}) {
    run.inside.sharding = sharding;
    EXPECT_EQ(run_sites(run)[3].hash, expected);
  }
  run.inside.sharding = Sharding::none;
  EXPECT_THROW(run_sites(run), UsageError);
}

TEST(Sharding, RoundedValuesTravelTheSameInEveryStrategy) {
  for (const int ranks : {1, 2, 4}) {
    SiteOptions inside{.gather = NearType::bf16, .reduce = NearType::bf16, .prefetch = false};
    const std::uint64_t expected = run_sites(toy_run(ranks, inside))[0].hash;
    EXPECT_NE(expected, run_sites(toy_run(ranks, {}))[0].hash);
    inside.prefetch = true;
    for (const Sharding sharding : kAll) {
      inside.sharding = sharding;
      for (const RankOutcome& rank : run_sites(toy_run(ranks, inside))) {
        EXPECT_EQ(rank.hash, expected) << to_string(sharding) << ", " << ranks << " ranks";
      }
    }
  }
}

TEST(Sharding, RoundedGradientsHaveTheSameBitsForAnyNumberOfEqualRanks) {
  std::uint64_t expected = 0;
  for (const int ranks : {1, 2, 4}) {
    SiteRunOptions run =
        toy_run(ranks, {.gather = NearType::bf16, .reduce = NearType::bf16, .clip = 1.0f});
    run.model = [](int, int) { return std::make_unique<ToyModel>(ToyOptions{}); };
    const std::uint64_t hash = run_sites(run)[0].hash;
    if (expected == 0) expected = hash;
    EXPECT_EQ(hash, expected) << ranks;
  }
}

TEST(Sharding, Bf16HalvesTheBytesOfTheNearLink) {
  const auto bytes = [](NearType type) {
    LoopbackWorld world({.ranks = 2});
    double sent = 0.0;
    run_threads(2, [&](int rank) {
      ToyModel model(ToyOptions{.parameters = {{"w", {512, 64}}}});
      Adamw optimizer({});
      AllReduceSync sync(world.far_collective(0, rank));
      Trainer trainer(model, world.near(0, rank), optimizer, sync,
                      {.schedule = {.shape = ScheduleShape::constant, .peak = 0.01f},
                       .site = {.gather = type, .reduce = type}});
      trainer.step();
      if (rank == 0) sent = static_cast<double>(world.near(0, 0).traffic().bytes_sent);
    });
    return sent;
  };
  EXPECT_NEAR(bytes(NearType::bf16) / bytes(NearType::fp32), 0.5, 0.01);
}

TEST(Sharding, MicroBatchesTogetherAreTheBatch) {
  for (const int ranks : {1, 2}) {
    SiteRunOptions first = gpt_run(ranks, {.accumulate = 4});
    first.optimizer = adamw;
    std::uint64_t hash = 0;
    for (const Sharding sharding : kAll) {
      SiteRunOptions run = gpt_run(ranks, {.sharding = sharding, .accumulate = 4});
      run.optimizer = adamw;
      const auto outcomes = run_sites(run);
      if (hash == 0) hash = outcomes[0].hash;
      EXPECT_EQ(outcomes[0].hash, hash) << to_string(sharding);
    }
    SiteRunOptions whole = gpt_run(1, {});
    whole.optimizer = adamw;
    const std::vector<float> one = parameters_after(whole);
    const std::vector<float> cut = parameters_after(first);
    ASSERT_EQ(one.size(), cut.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(one[i]) - cut[i]));
    }
    EXPECT_LT(worst, 2e-3) << ranks;  // AdamW's first steps magnify what rounding leaves near zero
  }
}

TEST(Sharding, GradientsOfMicroBatchesMeetOnce) {
  const auto sent = [](int micro_batches) {
    LoopbackWorld world({.ranks = 2});
    double bytes = 0.0;
    run_threads(2, [&](int rank) {
      ToyModel model(ToyOptions{});
      Adamw optimizer({});
      AllReduceSync sync(world.far_collective(0, rank));
      Trainer trainer(model, world.near(0, rank), optimizer, sync,
                      {.schedule = {.shape = ScheduleShape::constant, .peak = 0.01f},
                       .site = {.sharding = Sharding::gradient, .accumulate = micro_batches}});
      trainer.step();
      if (rank == 0) bytes = static_cast<double>(world.near(0, 0).traffic().bytes_sent);
    });
    return bytes;
  };
  EXPECT_EQ(sent(4), sent(1));
}

TEST(Sharding, TheGradientIsClippedToItsNormOverAllShards) {
  for (const int ranks : {1, 2}) {
    SiteRunOptions run = toy_run(ranks, {.clip = 0.25f});
    run.before_step = [](Trainer& trainer, LoopbackWorld&, int, int) {
      if (trainer.steps_done() == 0) return;
      double squares = 0.0;
      for (const float value : trainer.shard().grad()) squares += value * value;
      EXPECT_LT(std::sqrt(squares), 0.2501);
      EXPECT_GT(std::sqrt(squares), 0.1);
    };
    const std::vector<RankOutcome> outcomes = run_sites(run);
    for (const StepReport& report : outcomes[0].reports) {
      EXPECT_GT(report.gradient_norm, 1.0);  // as it was
    }
  }
}

TEST(Sharding, WrappedUnitsAreGatheredTogetherAndLendTheSameValues) {
  const std::vector<ParameterSpec> declared = awkward_parameters();
  EXPECT_EQ(wrapped(declared, {}), declared);
  for (const ParameterSpec& parameter : wrapped(declared, {kWrapAll})) {
    EXPECT_EQ(parameter.unit, 0);
  }
  EXPECT_EQ(wrapped(declared, {1}), declared);  // each unit is larger than that
  EXPECT_EQ(wrapped({{"a", {8}, 0}, {"b", {8}, 1}, {"c", {8}, 2}}, {40})[2].unit, 1);
  EXPECT_EQ(wrapped({{"a", {8}, 0}, {"b", {8}, 1}, {"c", {8}, 2}}, {40})[1].unit, 0);
  EXPECT_NE(Layout(wrapped(declared, {kWrapAll})).hash(), Layout(declared).hash());

  const std::vector<float> expected = parameters_after(toy_run(1, {}));
  for (const int ranks : {1, 2, 3}) {
    for (const Sharding sharding : kAll) {
      SiteRunOptions run = toy_run(ranks, {.sharding = sharding, .wrap = {kWrapAll}});
      run.model = [](int, int) { return std::make_unique<ToyModel>(ToyOptions{}); };
      const std::vector<float> got = parameters_after(run);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5);
    }
  }
}

// No room between a rank's and nothing: shards that are empty, a parameter larger than a shard,
// scalars, no values at all, nothing to train.
TEST(Sharding, SmallAndEmptyShardsAreNotSpecial) {
  const std::vector<std::vector<ParameterSpec>> models{
      {{"large", {200, 64}}},
      {{"w", {64, 64}}, {"scalar", {}}},
      {{"scalar", {}}},
      {{"nothing", {0}}, {"neither", {0, 7}, 1}},
      {{"frozen", {70, 3}, 0, false}, {"also", {5}, 1, false}},
  };
  for (const auto& parameters : models) {
    std::uint64_t expected = 0;
    for (const int ranks : {1, 3, 4}) {
      for (const Sharding sharding : kAll) {
        SiteRunOptions run = toy_run(ranks, {.sharding = sharding,
                                             .reduce = NearType::bf16,
                                             .accumulate = ranks == 3 ? 2 : 1,
                                             .clip = 1e3f});
        run.model = [&](int, int) {
          return std::make_unique<ToyModel>(ToyOptions{.parameters = parameters});
        };
        run.optimizer = ranks == 4 ? distro : adamw;
        run.steps = 2;
        const auto outcomes = run_sites(run);
        for (const RankOutcome& rank : outcomes) EXPECT_EQ(rank.hash, outcomes[0].hash);
        if (sharding == Sharding::none) expected = outcomes[0].hash;
        EXPECT_EQ(outcomes[0].hash, expected) << parameters[0].name << " x " << ranks;
        EXPECT_EQ(outcomes[0].skipped, 0u);
      }
    }
  }
}

// Takes its units in another order in every step.
class Fickle final : public Model {
 public:
  std::vector<ParameterSpec> parameters() const override {
    return {{"a", {64, 64}, 0}, {"b", {64, 64}, 1}, {"c", {64, 64}, 2}};
  }
  void initialize(std::size_t index, std::uint64_t, Floats values) const override {
    std::ranges::fill(values, static_cast<float>(index + 1));
  }
  float loss_and_grad(Units& units, const Step& step) override {
    for (int i = 0; i < 5; ++i) {
      const int unit = static_cast<int>((step.index * 7 + i * (1 + step.index % 2)) % 3);
      const Units::Weights weights = units.weights(unit);
      const float value = weights.at(units.layout().place(unit))[0];
      EXPECT_NEAR(value, unit + 1, 0.5);
    }
    for (int unit = 0; unit < 3; ++unit) {
      std::ranges::fill(units.gradient(unit).at(units.layout().place(unit)), 0.25f);
    }
    return 0.0f;
  }
};

TEST(Sharding, AModelMayTakeItsUnitsInAnotherOrderEveryTime) {
  std::uint64_t expected = 0;
  for (const bool prefetch : {false, true}) {
    SiteRunOptions run = toy_run(3, {.prefetch = prefetch});
    run.schedule.peak = 1e-3f;
    run.steps = 12;
    run.model = [](int, int) { return std::make_unique<Fickle>(); };
    const auto outcomes = run_sites(run);
    if (expected == 0) expected = outcomes[0].hash;
    EXPECT_EQ(outcomes[0].hash, expected);
  }
}

// Reductions and gathers are in flight when rank 1 gives up in the middle of its pass.
class Dropout final : public Model {
 public:
  explicit Dropout(bool fails) : fails_(fails) {}
  std::vector<ParameterSpec> parameters() const override { return toy_.parameters(); }
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    toy_.initialize(index, seed, values);
  }
  float loss_and_grad(Units& units, const Step& step) override {
    if (!fails_ || step.index < 2) return toy_.loss_and_grad(units, step);
    {
      const Units::Weights weights = units.weights(0);
      const Units::Gradient first = units.gradient(0);
    }
    throw Error("the model broke");
  }

 private:
  ToyModel toy_{ToyOptions{}};
  bool fails_;
};

TEST(Sharding, AModelThatFailsWhileTheNearLinkWorksEndsAllRanks) {
  SiteRunOptions run = toy_run(3, {});
  run.model = [](int, int rank) { return std::make_unique<Dropout>(rank == 1); };
  try {
    run_sites(run);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model broke");
  }
}

// The near link breaks: the thread's failure comes out of the training thread's next call.
TEST(Sharding, AFailureOfTheNearLinkReachesTheStep) {
  LoopbackWorld world({.ranks = 2, .deadline = std::chrono::milliseconds(200)});
  ToyModel model(ToyOptions{});
  Adamw optimizer({});
  AllReduceSync sync(world.far_collective(0, 0));
  Trainer trainer(model, world.near(0, 0), optimizer, sync,
                  {.schedule = {.shape = ScheduleShape::constant}});
  try {
    trainer.step();
    ADD_FAILURE() << "rank 1 is not there";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 did not come"), std::string::npos);
  }
}

TEST(Sharding, TimesOfAStepAddUp) {
  for (const bool prefetch : {false, true}) {
    const std::vector<RankOutcome> outcomes = run_sites(toy_run(2, {.prefetch = prefetch}));
    for (const StepReport& report : outcomes[1].reports) {
      const StepTimes& t = report.times;
      const double sum = t.compute_s + t.gather_wait_s + t.reduce_wait_s + t.extract_s +
                         t.exchange_wait_s + t.apply_s;
      EXPECT_GT(t.compute_s, 0.0);
      EXPECT_GT(t.gather_wait_s, 0.0);
      EXPECT_GT(t.reduce_wait_s, 0.0);
      EXPECT_LE(sum, t.total_s);
      EXPECT_GE(t.exposed_share(), 0.0);
      EXPECT_LE(t.exposed_share(), 1.0);
    }
  }
}

TEST(Sharding, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(parse_sharding("gradient"), Sharding::gradient);
  EXPECT_EQ(parse_near_type("bf16"), NearType::bf16);
  EXPECT_EQ(parse_wrap("all").bytes, kWrapAll);
  EXPECT_EQ(parse_wrap("size:4096").bytes, 4096u);
  for (const char* wrong : {"size:", "size:0", "size:-1", "size:12x", "units", "", "size:1e6"}) {
    EXPECT_THROW(parse_wrap(wrong), UsageError) << wrong;
  }
  EXPECT_THROW(parse_near_type("fp16"), UsageError);
  try {
    parse_sharding("zero3");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "unknown sharding 'zero3'; known: none, optimizer, gradient, full");
  }
  EXPECT_THROW((SiteOptions{.accumulate = 0}.validate()), UsageError);
  EXPECT_THROW((SiteOptions{.clip = -1.0f}.validate()), UsageError);
  EXPECT_THROW((SiteOptions{.clip = NAN}.validate()), UsageError);
}

TEST(Sharding, SitesMustAgreeOnWhatChangesTheirGradients) {
  const auto agreement = [](const SiteOptions& inside) {
    LoopbackWorld world({});
    ToyModel model(ToyOptions{});
    Adamw optimizer({});
    AllReduceSync sync(world.far_collective(0, 0));
    return Trainer(model, world.near(0, 0), optimizer, sync,
                   {.schedule = {.shape = ScheduleShape::constant}, .site = inside})
        .agreement();
  };
  const std::uint64_t plain = agreement({});
  EXPECT_EQ(agreement({.sharding = Sharding::gradient, .prefetch = false}), plain);
  EXPECT_NE(agreement({.clip = 1.0f}), plain);
  EXPECT_NE(agreement({.accumulate = 2}), plain);
  EXPECT_NE(agreement({.gather = NearType::bf16}), plain);
  EXPECT_NE(agreement({.reduce = NearType::bf16}), plain);
  EXPECT_NE(agreement({.wrap = {kWrapAll}}), plain);
}

}  // namespace
}  // namespace thinwire::test
