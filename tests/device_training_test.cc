// Whole runs on devices that are emulated: every method, beside sites on the host, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "optimizers/catalog.h"
#include "tests/support/fake_cuda/machine.h"
#include "tests/support/model_on_host.h"
#include "tests/support/site_run.h"
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
  run.model = [there](int site, int) -> std::unique_ptr<Model> {
    auto model = std::make_unique<ToyModel>(ToyOptions{.site = site});
    if (!there(site)) return model;
    return std::make_unique<ModelOnHost>(std::move(model));
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
                         [](const auto& info) { return name_of(info.param); });

// What ranks of a site do between them, with units that come and go on a device.
struct Inside {
  std::string name;
  int ranks = 2;
  SiteOptions options = {};
};
void PrintTo(const Inside& inside, std::ostream* out) { *out << inside.name; }

class InsideASite : public testing::TestWithParam<Inside> {};

TEST_P(InsideASite, RanksOnDevicesEndWithTheBitsOfRanksOnTheHost) {
  for (const char* name : {"mural", "adamw", "signum"}) {  // the last keeps its shard on the host
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
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace thinwire::test
