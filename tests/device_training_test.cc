// Whole runs on devices that are emulated: every method, beside sites on the host, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "optimizers/all_reduce.h"
#include "optimizers/catalog.h"
#include "optimizers/demo.h"
#include "tests/support/fake_cuda/machine.h"
#include "tests/support/model_on_host.h"
#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

struct Method {
  std::string name;
  std::map<std::string, std::string> settings = {};
};

std::vector<Method> methods() {
  std::vector<Method> all;
  for (const std::string& name : optimizer_catalog().names()) {
    Settings settings(name);
    optimizer_catalog().make(name, settings);
    Method method{name};
    if (settings.resolved().contains("h")) method.settings["h"] = "2";
    if (name == "onebit_adam") method.settings["warmup"] = "3";
    if (name == "powersgd") method.settings["clip"] = "0";
    all.push_back(method);
  }
  all.push_back({"mural", {{"delay", "1"}}});
  all.push_back({"demo", {{"delay", "2"}, {"look_ahead", "2"}, {"k", "70"}}});
  all.push_back({"demo", {{"clip_to_median", "1"}, {"k", "64"}}});
  all.push_back({"demo", {{"apply", "rms"}, {"subtract", "0.2"}, {"signal", "lion"}}});
  all.push_back({"mural", {{"transform", "hadamard"}}});
  all.push_back({"topk", {{"clip", "0"}, {"k", "41"}}});
  return all;
}

std::string name_of(const Method& method) {
  std::string text = method.name;
  for (const auto& [key, value] : method.settings) text += "_" + key + "_" + value;
  std::ranges::replace(text, '.', '_');
  return text;
}
void PrintTo(const Method& method, std::ostream* out) { *out << name_of(method); }

SiteRunOptions run_of(const Method& method, int sites, int ranks) {
  SiteRunOptions run;
  run.world = {.sites = sites, .ranks = ranks};
  run.steps = 6;
  run.optimizer = [method] {
    Settings settings(method.name, method.settings);
    return optimizer_catalog().make(method.name, settings);
  };
  return run;
}

// The same gradients at the sites for which `there` says so, on an emulated device.
SiteRunOptions on_devices(SiteRunOptions run, std::function<bool(int site)> there) {
  run.device = [there](int site, int) { return there(site) ? Device::cuda(0) : Device(); };
  run.model = [there](int site, int) {
    return model_for(there(site) ? Device::cuda(0) : Device(),
                     std::make_unique<ToyModel>(ToyOptions{.site = site}));
  };
  return run;
}

class OnADevice : public testing::TestWithParam<Method> {};

TEST_P(OnADevice, SitesOnDevicesAndHostsEndEqualToTheBit) {
  const SiteRunOptions run = run_of(GetParam(), 3, 1);
  const auto mixed = run_sites(on_devices(run, [](int site) { return site == 1; }));
  for (const RankOutcome& outcome : mixed) {
    EXPECT_EQ(outcome.hash, mixed[0].hash);
    for (const StepReport& report : outcome.reports) EXPECT_TRUE(report.diverged.empty());
  }
  EXPECT_EQ(mixed[0].hash, run_sites(run)[0].hash);
}

INSTANTIATE_TEST_SUITE_P(Methods, OnADevice, testing::ValuesIn(methods()),
                         [](const auto& method) { return name_of(method.param); });

// What ranks of a site do between them, with units that come and go on a device.
struct Inside {
  std::string name;
  int ranks = 2;
  SiteOptions options = {};
};
void PrintTo(const Inside& inside, std::ostream* out) { *out << inside.name; }

class InsideASite : public testing::TestWithParam<Inside> {};

TEST_P(InsideASite, RanksOnDevicesEndWithTheBitsOfRanksOnTheHost) {
  for (const char* name : {"mural", "adamw", "signum", "dion2"}) {  // the last on the host
    SiteRunOptions run =
        run_of({name}, GetParam().options.sharding == Sharding::none ? 1 : 2, GetParam().ranks);
    run.inside = GetParam().options;
    const std::uint64_t on_host = run_sites(run)[0].hash;
    const auto all = run_sites(on_devices(run, [](int) { return true; }));
    for (const RankOutcome& outcome : all) EXPECT_EQ(outcome.hash, on_host) << name;
  }
}

std::vector<Inside> ways() {
  std::vector<Inside> all{{"full", 2}, {"one_rank", 1}, {"three_ranks", 3}};
  all.push_back({"optimizer", 2, {.sharding = Sharding::optimizer}});
  all.push_back({"gradient", 2, {.sharding = Sharding::gradient}});
  all.push_back({"none", 2, {.sharding = Sharding::none}});
  all.push_back({"wrapped", 2, {.wrap = {kWrapAll}}});
  all.push_back({"bf16", 2, {.gather = NearType::bf16, .reduce = NearType::bf16}});
  all.push_back({"bf16_alone", 1, {.gather = NearType::bf16, .reduce = NearType::bf16}});
  all.push_back({"in_turn", 2, {.prefetch = false}});
  all.push_back({"clipped", 2, {.clip = 0.5f}});
  all.push_back({"accumulated", 2, {.accumulate = 2}});
  all.push_back({"accumulated_alone", 1, {.accumulate = 3}});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Ways, InsideASite, testing::ValuesIn(ways()),
                         [](const auto& way) { return way.param.name; });

// A rule as somebody outside writes it, with a loop over floats of the host.
class HalvingRule final : public Rule {
 public:
  std::vector<StateSpec> states(StateKind kind) const override { return {spec("last", kind)}; }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    const Floats last = state(shard, "last", piece);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = how.keep * x[i] - how.lr * 0.5f * (how.scale * g[i] + last[i]);
      last[i] = how.scale * g[i];
    }
  }
};

TEST(DeviceRun, ARuleFromOutsideWorksOnTheHostWherever) {
  for (const bool all_reduced : {true, false}) {
    SiteRunOptions run = run_of({"adamw"}, 2, 2);
    run.optimizer = [all_reduced]() -> std::unique_ptr<Optimizer> {
      if (all_reduced) {
        return std::make_unique<AllReduce>(AllReduce::Options{.name = "halving"},
                                           std::make_unique<HalvingRule>());
      }
      Demo::Options options;
      options.signal = std::make_shared<HalvingRule>();
      return std::make_unique<Demo>(options);
    };
    const std::uint64_t on_host = run_sites(run)[0].hash;
    EXPECT_EQ(run_sites(on_devices(run, [](int) { return true; }))[0].hash, on_host);
  }
}

// A unit of which nothing is trained.
TEST(DeviceRun, FrozenUnitsAreOrdinary) {
  for (const int accumulate : {1, 3}) {
    SavedRun run{.ranks = 2, .method = "mural"};
    run.parameters = {{"a", {70, 64}, 0}, {"frozen", {9, 3}, 1, false}, {"b", {64, 64}, 2}};
    run.inside.accumulate = accumulate;
    const std::uint64_t on_host = run.train(0, 3);
    run.device = Device::cuda(0);
    EXPECT_EQ(run.train(0, 3), on_host) << accumulate;
    run.ranks = 1;
    EXPECT_NE(run.train(0, 3), 0u);
  }
}

#ifdef THINWIRE_EMULATED_CUDA
// Where work is handed over to the device, and to which.
TEST(DeviceRun, ThoseThatSaySoWorkThereAndTheOthersOnTheHost) {
  for (const Method& method : methods()) {
    const SiteRunOptions run = run_of(method, 1, 1);
    const std::uint64_t before = fake_cuda::launches();
    run_sites(on_devices(run, [](int) { return true; }));
    const std::uint64_t kernels = fake_cuda::launches() - before;
    if (run.optimizer()->traits().on_device) {
      EXPECT_GT(kernels, 2 * run.steps) << name_of(method);
    } else {
      EXPECT_EQ(kernels, 0u) << name_of(method);
    }
  }
}

// What was lost on one rank ends the others too, at any moment, and nothing stays allocated.
TEST(DeviceRun, ALostDeviceEndsAllRanksWithWhatToDo) {
  static_cast<void>(cuda_devices());
  const SiteRunOptions run = on_devices(run_of({"mural"}, 2, 2), [](int) { return true; });
  const std::size_t before = fake_cuda::bytes_in_use(0);
  for (const std::uint64_t calls : {0, 30, 77, 400, 1000, 1900}) {
    fake_cuda::lose_devices(calls);
    try {
      run_sites(run);
      ADD_FAILURE() << "nothing was lost after " << calls;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("CUDA device failed in "), std::string::npos) << text;
    }
    fake_cuda::set_machine({});
    EXPECT_EQ(fake_cuda::bytes_in_use(0), before) << calls;
  }
}

TEST(DeviceRun, WithoutRoomNothingIsLeftBehind) {
  const SiteRunOptions run = on_devices(run_of({"adamw"}, 1, 2), [](int) { return true; });
  const std::size_t before = fake_cuda::bytes_in_use(0);
  for (const std::size_t bytes : {0, 10'000, 200'000, 400'000, 700'000}) {
    fake_cuda::set_machine({.bytes = before + bytes});
    try {
      run_sites(run);
      ADD_FAILURE() << "there was room with " << bytes;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(" has no room for "), std::string::npos) << text;
      EXPECT_NE(text.find(" are free"), std::string::npos) << text;
    }
    fake_cuda::set_machine({});
    EXPECT_EQ(fake_cuda::bytes_in_use(0), before) << bytes;
  }
}
#endif

TEST(DeviceRun, WhatWasSavedGoesOnElsewhereWithTheSameBits) {
  for (const char* method : {"mural:delay=1", "adamw", "diloco:h=2"}) {
    SavedRun run{.sites = 2, .ranks = 2, .method = method};
    const std::uint64_t expected = run.train(0, 8);
    for (const bool saved_there : {true, false}) {
      const TemporaryDirectory dir;
      run.dir = dir.path();
      run.device = saved_there ? Device::cuda(0) : Device();
      run.train(0, 4, 4);
      const FoundCheckpoint found = newest_checkpoint(dir.path());
      ASSERT_TRUE(found.checkpoint) << method;
      run.checkpoint = &*found.checkpoint;
      run.device = saved_there ? Device() : Device::cuda(0);
      EXPECT_EQ(run.train(4, 8), expected) << method;
    }
  }
}

TEST(DeviceRun, FewerSitesGoOnThereAsOnTheHost) {
  const TemporaryDirectory dir;
  SavedRun run{.sites = 3, .method = "mural:delay=1", .dir = dir.path()};
  run.train(0, 4, 4);
  const FoundCheckpoint found = newest_checkpoint(dir.path());
  ASSERT_TRUE(found.checkpoint);
  run.checkpoint = &*found.checkpoint;
  run.sites = 2;
  const std::uint64_t on_host = run.train(4, 8);
  run.device = Device::cuda(0);
  EXPECT_EQ(run.train(4, 8), on_host);
}

TEST(DeviceRun, AReplicaThatDiffersIsMendedThere) {
  SiteRunOptions run = on_devices(run_of({"distro"}, 3, 1), [](int site) { return site != 0; });
  run.before_step = [](Trainer& trainer, LoopbackWorld&, int site, int) {
    if (site != 2 || trainer.steps_done() != 2) return;
    std::vector<float> values = to_host(trainer.shard().params());
    values[100] += 1.0f;
    copy(values, trainer.shard().params());
  };
  const auto outcomes = run_sites(run);
  EXPECT_EQ(outcomes[0].reports[2].diverged, std::vector<int>{2});
  for (const RankOutcome& one : outcomes) EXPECT_EQ(one.hash, outcomes[0].hash);
  EXPECT_TRUE(outcomes[0].reports.back().diverged.empty());
}

}  // namespace
}  // namespace thinwire::test
