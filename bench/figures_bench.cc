// The figures of scripts/figures.sh that are not speeds: figures_bench NAME prints one JSON object
// with the value and what it was made of.
#include <malloc.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "apps/compare.h"
#include "apps/options.h"
#include "apps/runner.h"
#include "models/gpt.h"
#include "models/text.h"
#include "optimizers/adamw.h"
#include "optimizers/catalog.h"
#include "optimizers/distro.h"
#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "tests/support/site_run.h"

namespace {

using namespace thinwire;
using nlohmann::json;
using test::ToyModel;
using test::ToyOptions;

// All parameters of site 0 after 50 steps of adamw on the toy problem.
std::vector<float> adamw_parameters(int sites, int ranks) {
  test::SiteRunOptions run;
  run.world = {.sites = sites, .ranks = ranks};
  run.steps = 50;
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  // Four workers in any arrangement: each has its own gradient, the mean is the whole batch's.
  run.model = [=](int site, int rank) {
    return std::make_unique<ToyModel>(ToyOptions{.site = site * ranks + rank});
  };
  return test::parameters_after(run);
}

// One process whose gradient is the mean of four workers': the reference.
class WholeBatch final : public Model {
 public:
  WholeBatch() : specs_(test::awkward_parameters()) {
    for (int worker = 0; worker < 4; ++worker) workers_.emplace_back(ToyOptions{.site = worker});
  }
  std::vector<ParameterSpec> parameters() const override { return specs_; }
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    workers_[0].initialize(index, seed, values);
  }
  float loss_and_grad(Units& units, const Step& step) override;

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<ToyModel> workers_;
};

// Lends one worker buffers of its own and adds them up, in double.
class Adding final : public Units {
 public:
  Adding(Units& units, std::vector<std::vector<double>>& sums) : units_(units), sums_(sums) {}
  const Layout& layout() const override { return units_.layout(); }

 protected:
  Buffers<ConstFloats> take_weights(int unit) override {
    weights_.resize(layout().units());
    weights_[unit].clear();
    const Units::Weights lease = units_.weights(unit);
    for (std::size_t p = 0; p < layout().parameters().size(); ++p) {
      const Place& place = layout().place(p);
      if (place.unit != unit || !place.trainable) continue;
      const ConstFloats values = lease.at(place);
      weights_[unit].resize(std::max(weights_[unit].size(), place.offset + place.size));
      std::copy(values.begin(), values.end(), weights_[unit].begin() + place.offset);
    }
    frozen_.assign(layout().frozen_size(unit), 0.0f);
    return {weights_[unit], frozen_};
  }
  Buffers<Floats> take_gradient(int unit) override {
    gradient_.assign(layout().unit_size(unit), 0.0f);
    return {gradient_, frozen_};
  }
  void end_weights(int) noexcept override {}
  void end_gradient(int unit) noexcept override {
    for (std::size_t i = 0; i < gradient_.size(); ++i) sums_[unit][i] += gradient_[i];
  }

 private:
  Units& units_;
  std::vector<std::vector<double>>& sums_;
  std::vector<std::vector<float>> weights_;
  std::vector<float> frozen_;
  std::vector<float> gradient_;
};

float WholeBatch::loss_and_grad(Units& units, const Step& step) {
  std::vector<std::vector<double>> sums;
  for (int unit = 0; unit < units.layout().units(); ++unit) {
    sums.emplace_back(units.layout().unit_size(unit), 0.0);
  }
  float loss = 0.0f;
  for (ToyModel& worker : workers_) {
    Adding adding(units, sums);
    loss += worker.loss_and_grad(adding, step) / 4.0f;
  }
  for (int unit = 0; unit < units.layout().units(); ++unit) {
    const Units::Gradient gradient = units.gradient(unit);
    for (std::size_t p = 0; p < specs_.size(); ++p) {
      const Place& place = units.layout().place(p);
      if (place.unit != unit || !place.trainable) continue;
      const Floats values = gradient.at(place);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(sums[unit][place.offset + i] / 4.0);
      }
    }
  }
  return loss;
}

json adamw_sharded() {
  std::vector<float> expected;
  test::SiteRunOptions run;
  run.steps = 50;
  run.optimizer = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  run.model = [](int, int) { return std::make_unique<WholeBatch>(); };
  run.at_end = [&](Trainer& trainer, int, int) { expected = test::gathered_parameters(trainer); };
  test::run_sites(run);
  double worst = 0.0;
  json parts;
  for (const auto& [sites, ranks] : {std::pair{1, 4}, {4, 1}, {2, 2}}) {
    const std::vector<float> got = adamw_parameters(sites, ranks);
    double difference = got.size() == expected.size() ? 0.0 : 1e9;
    for (std::size_t i = 0; i < got.size() && difference < 1e9; ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
    }
    parts[std::to_string(sites) + "x" + std::to_string(ranks)] = difference;
    worst = std::max(worst, difference);
  }
  return {{"value", worst}, {"by_sites_x_ranks", parts}};
}

// Ranks and sites whose replicated state differs from the first one's, over all methods.
// Methods with local steps are to speak within such a run, and a warm-up to end.
json replicas() {
  int differing = 0;
  int runs = 0;
  const OptimizerCatalog catalog = optimizer_catalog();
  for (const std::string& name : catalog.names()) {
    for (const auto& [sites, ranks] : {std::pair{1, 4}, {4, 1}, {2, 2}, {3, 2}}) {
      test::SiteRunOptions run;
      run.world = {.sites = sites, .ranks = ranks};
      run.optimizer = [&] {
        Settings usual(name);
        catalog.make(name, usual);
        std::map<std::string, std::string> given;
        if (usual.resolved().contains("h")) given["h"] = "2";
        if (usual.resolved().contains("warmup")) given["warmup"] = "6";
        Settings settings(name, given);
        return catalog.make(name, settings);
      };
      const auto outcomes = test::run_sites(run);
      for (const test::RankOutcome& one : outcomes) differing += one.hash != outcomes[0].hash;
      ++runs;
    }
  }
  return {{"value", differing}, {"runs", runs}};
}

// Coefficients for which sent + kept is not, to the bit, the momentum before anything was sent.
json sent_kept() {
  std::size_t wrong = 0;
  std::size_t checked = 0;
  for (int bits : {1, 32}) {
    const Demo::Options options{.k = 8, .bits = bits, .clip = 0.0f};
    Demo optimizer(options);
    const Layout layout({{"m", {1000, 1000}}, {"v", {5000}}});
    Shard shard(layout, 0, 1, optimizer.traits().states);
    for (std::uint64_t index = 0; index < 4; ++index) {
      const std::vector<float> gradient = test::noise_vector(index, shard.grad().size());
      std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
      std::vector<float> momentum(shard.state("residual").begin(), shard.state("residual").end());
      for (const Tile& tile : shard.tiles()) {
        kernels::fold(tile, shard.grad(), options.decay, 0.01f,
                      Floats(momentum).subspan(tile.coefficients, tile.height * tile.width));
      }
      const Step step{.index = index, .lr = 0.01f};
      const Update said = optimizer.extract(step, shard);
      Shard restored = shard;
      optimizer.take_back(step, restored, said);
      const ConstFloats together = restored.state("residual");
      for (std::size_t i = 0; i < momentum.size(); ++i, ++checked) {
        wrong +=
            std::bit_cast<std::uint32_t>(momentum[i]) != std::bit_cast<std::uint32_t>(together[i]);
      }
    }
  }
  return {{"value", wrong}, {"coefficients", checked}};
}

// A frame of 256 full tiles, 1 M parameters, positions spread evenly: the worst case for the codec.
json bits_per_coefficient() {
  const Layout layout({{"m", {1024, 1024}}});
  Demo optimizer(distro(0));
  Shard shard(layout, 0, 1, optimizer.traits().states);
  std::size_t bytes = 0;
  std::size_t coefficients = 0;
  for (std::uint64_t index = 0; index < 8; ++index) {
    const std::vector<float> gradient = test::noise_vector(index, shard.grad().size());
    std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
    const Update said = optimizer.extract({.index = index, .lr = 0.01f}, shard);
    const std::vector<std::uint32_t> tiles(shard.tiles().size(), 4096);
    bytes += seal({}, encode(said, {shard.params().size(), tiles})).size();
    coefficients += said.picks.positions.size();
  }
  return {{"value", 8.0 * static_cast<double>(bytes) / static_cast<double>(coefficients)},
          {"frame_bytes", bytes / 8}};
}

// The demo's comparison, with these settings instead of its defaults.
app::CompareResult compared(app::FlatConfig config) {
  const OptimizerCatalog catalog = optimizer_catalog();
  const std::atomic<bool> stop{false};
  return app::compare(app::resolve(config, catalog), catalog, "figures_bench", stop,
                      app::TrainCommand());
}

json bytes_ratio() {
  const app::CompareResult result =
      compared({{"run.methods", "adamw,distro"}, {"run.steps", "50"}, {"run.eval_windows", "8"}});
  return {{"value",
           result.methods[1].bytes_up > 0 ? result.ring_bytes / result.methods[1].bytes_up : 0},
          {"distro_bytes_up", result.methods[1].bytes_up},
          {"adamw_bytes_up", result.methods[0].bytes_up},
          {"ring_bytes", result.ring_bytes}};
}

json loss_gap() {
  const app::CompareResult result = compared({{"run.methods", "adamw,distro"},
                                              {"run.steps", "3000"},
                                              {"run.seed", "11"},
                                              {"run.seeds", "3"},
                                              {"optimizer.adamw.lr", "1.6e-2"},
                                              {"optimizer.distro.lr", "4e-3"}});
  json methods;
  for (const app::MethodResult& method : result.methods) {
    methods[method.method] = {
        {"loss", method.loss}, {"sd", method.loss_sd}, {"settings", method.settings}};
  }
  return {{"value", result.methods[1].gap}, {"methods", methods}};
}

// Tokens per second of `small`, 8 windows a rank, by the clock, without evaluations.
double tokens_per_s(int sites, int ranks) {
  const Text text = Text::from_bytes(std::vector<std::uint8_t>(200'000, 'a'));
  const OptimizerCatalog catalog = optimizer_catalog();
  const app::RunOptions options = app::resolve({{"run.methods", "adamw"},
                                                {"run.sites", std::to_string(sites)},
                                                {"run.ranks", std::to_string(ranks)},
                                                {"run.batch", std::to_string(8 * sites * ranks)},
                                                {"run.steps", "15"},
                                                {"run.eval_windows", "1"},
                                                {"run.eval_every", "15"},
                                                {"model.preset", "small"}},
                                               catalog);
  const std::atomic<bool> stop{false};
  return app::run({options, options.methods[0], 1, text, catalog, {}, stop}).tokens_per_s;
}

// Two ranks that train together, in one site and in two, against one; fastest of five, interleaved.
json two_ranks() {
  double one = 0.0;
  double in_a_site = 0.0;
  double in_two_sites = 0.0;
  for (int round = 0; round < 5; ++round) {
    one = std::max(one, tokens_per_s(1, 1));
    in_a_site = std::max(in_a_site, tokens_per_s(1, 2));
    in_two_sites = std::max(in_two_sites, tokens_per_s(2, 1));
  }
  return {{"value", std::min(in_a_site, in_two_sites) / one},
          {"tokens_per_s_one", one},
          {"one_site_of_two", in_a_site / one},
          {"two_sites_of_one", in_two_sites / one}};
}

double resident_mib(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != std::string(field) + ":") continue;
    double kib = 0.0;
    status >> kib;
    return kib / 1024.0;
  }
  return 0.0;
}

// Ranks of four sites in one process: the highest resident memory, over what parameters, gradients
// and states take, per rank. One window of 64 tokens a rank, so that activations are small.
double memory_above_formula(const std::string& method, json& parts) {
  constexpr int kSites = 4;
  const Text text = Text::from_bytes(std::vector<std::uint8_t>(100'000, 'a'));
  const OptimizerCatalog catalog = optimizer_catalog();
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const double before = resident_mib("VmRSS");
  GptOptions options = GptOptions::preset("base");
  options.context = 64;
  std::size_t floats = 0;
  test::SiteRunOptions run;
  run.world = {.sites = kSites};
  run.steps = 3;
  run.optimizer = [&] {
    Settings settings(method);
    return catalog.make(method, settings);
  };
  run.model = [&](int site, int) {
    return std::make_unique<Gpt>(
        options, text,
        BatchOptions{
            .global_batch = kSites, .part = static_cast<std::size_t>(site), .parts = kSites});
  };
  run.at_end = [&](Trainer& trainer, int site, int) {
    if (site != 0) return;
    floats = 2 * trainer.shard().params().size();
    for (const StateSpec& spec : trainer.shard().states()) {
      floats += trainer.shard().state(spec.name).size();
    }
  };
  test::run_sites(run);
  const double formula = static_cast<double>(floats * sizeof(float)) / (1 << 20);
  const double above = (resident_mib("VmHWM") - before) / kSites - formula;
  parts[method] = {{"formula_mib", formula}, {"above_mib", above}};
  return above;
}

json rank_memory() {
  json parts;
  double worst = 0.0;
  for (const char* method : {"adamw", "sgd", "demo", "distro"}) {
    worst = std::max(worst, memory_above_formula(method, parts));
  }
  return {{"value", worst}, {"methods", parts}};
}

// How far what a site sends is from the formula, in percent: whole tiles, so that padding is no
// part of it.
double bytes_off_formula(const std::string& method,
                         const std::map<std::string, std::string>& settings, int steps,
                         double formula_bytes, json& parts) {
  test::SiteRunOptions run;
  run.world = {.sites = 2};
  run.steps = static_cast<std::uint64_t>(steps);
  run.optimizer = [&] {
    Settings given(method, settings);
    return optimizer_catalog().make(method, given);
  };
  run.model = [](int site, int) {
    return std::make_unique<ToyModel>(
        ToyOptions{.site = site, .parameters = {{"a", {512, 512}, 0}, {"b", {512, 512}, 1}}});
  };
  const auto sent = static_cast<double>(test::run_sites(run)[0].traffic.bytes_sent);
  parts[method] = {{"sent", sent}, {"formula", formula_bytes}};
  return 100.0 * std::abs(sent / formula_bytes - 1.0);
}

json local_bytes() {
  constexpr double kTiles = 2 * 64;
  constexpr double kTileValues = 4096;
  constexpr int kWords = 5;  // about every part of the model
  json parts;
  // 4 bits a value and a scale a tile.
  const double dense = kTiles * kWords * (4 * kTileValues + 32) / 8;
  // Positions at their entropy, 2 bits a value and a scale a tile.
  const int k = 64;
  double bits = 2 * k + 32;
  for (int i = 0; i < k; ++i) bits += std::log2((kTileValues - i) / (i + 1));
  const double sparse = kTiles * kWords * bits / 8;
  const double worst = std::max(
      bytes_off_formula("streaming_diloco", {{"h", "6"}}, 6 * kWords, dense, parts),
      bytes_off_formula("sparseloco", {{"h", "6"}, {"k", "64"}}, 6 * kWords, sparse, parts));
  return {{"value", worst}, {"methods", parts}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, json (*)()> figures{
      {"adamw_sharded", adamw_sharded}, {"replicas", replicas},
      {"sent_kept", sent_kept},         {"bits_per_coefficient", bits_per_coefficient},
      {"bytes_ratio", bytes_ratio},     {"loss_gap", loss_gap},
      {"rank_memory", rank_memory},     {"two_ranks", two_ranks},
      {"local_bytes", local_bytes}};
  const auto found = argc == 2 ? figures.find(argv[1]) : figures.end();
  if (found == figures.end()) {
    std::cerr << "usage: figures_bench NAME, one of:";
    for (const auto& [name, measure] : figures) std::cerr << " " << name;
    std::cerr << "\n";
    return 2;
  }
  std::cout << found->second().dump() << "\n";
  return 0;
}
