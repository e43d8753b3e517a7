// What sharding costs and changes: sharding_bench NAME prints one JSON object.
//   exposed_communication   the share of a step in which a rank only waits for a link, with
//   prefetch
//                           over that without, 2 ranks
//   full_vs_none            `full` on 4 ranks against one rank with the same batch, 50 steps
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "models/gpt.h"
#include "models/text.h"
#include "optimizers/adamw.h"
#include "optimizers/distro.h"
#include "tests/support/site_run.h"

namespace {

using namespace thinwire;
using nlohmann::ordered_json;

// A near link of so many bytes a second: memory is too fast on two cores to be worth hiding. Each
// operation lasts as long as its bytes would take, on whichever thread calls it.
class PacedNear final : public Collective {
 public:
  PacedNear(Collective& near, double bytes_per_s) : near_(near), rate_(bytes_per_s) {}
  int rank() const override { return near_.rank(); }
  int size() const override { return near_.size(); }
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override {
    paced(whole.size() - mine.size(), [&] { near_.reduce_scatter_mean(whole, mine, cuts); });
  }
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override {
    paced(whole.size() - mine.size(), [&] { near_.all_gather(mine, whole, cuts); });
  }
  void all_reduce_mean(Floats whole) override {
    paced(whole.size(), [&] { near_.all_reduce_mean(whole); });
  }
  void broadcast(Floats data, int root) override { near_.broadcast(data, root); }
  void barrier() override { near_.barrier(); }
  Traffic traffic() const override { return near_.traffic(); }

 private:
  template <class Operation>
  void paced(std::size_t floats, Operation&& operation) {
    using Seconds = std::chrono::duration<double>;
    const auto end = std::chrono::steady_clock::now() +
                     Seconds(static_cast<double>(floats * sizeof(float)) / rate_);
    operation();
    std::this_thread::sleep_until(end);
  }

  Collective& near_;
  double rate_;
};

const Text& words() {
  static const Text text = [] {
    std::vector<std::uint8_t> bytes;
    for (int i = 0; i < 200'000; ++i) {
      bytes.push_back(static_cast<std::uint8_t>((i * 7 + i / 31 * 13 + i / 101) % 96 + 32));
    }
    return Text::from_bytes(bytes);
  }();
  return text;
}

// Mean times of a step of both ranks; the first steps, in which the order of units is learned, left
// out. `bytes_per_s` 0: memory as it is.
StepTimes step_times(bool prefetch, double bytes_per_s) {
  constexpr int kRanks = 2;
  constexpr int kSteps = 12;
  LoopbackWorld world({.sites = 1, .ranks = kRanks});
  std::vector<StepTimes> sums(kRanks);
  test::run_threads(kRanks, [&](int rank) {
    GptOptions options = GptOptions::preset("small");
    options.layers = 8;
    Gpt model(
        options, words(),
        {.global_batch = 4 * kRanks, .part = static_cast<std::size_t>(rank), .parts = kRanks});
    PacedNear paced(world.near(0, rank), bytes_per_s);
    Collective& near = bytes_per_s > 0.0 ? paced : world.near(0, rank);
    Demo optimizer(distro(1));
    DelayedSync sync(world.far(0, rank), {.delay = 1});
    Trainer trainer(model, near, optimizer, sync,
                    {.schedule = {.shape = ScheduleShape::constant, .peak = 1e-3f},
                     .site = {.prefetch = prefetch}});
    for (int step = 0; step < kSteps; ++step) {
      const StepTimes times = trainer.step().times;
      if (step >= 2) sums[rank].add(times, 1.0 / (kRanks * (kSteps - 2)));
    }
  });
  sums[0].add(sums[1]);
  return sums[0];
}

ordered_json json_of(const StepTimes& times) {
  return {{"exposed_share", times.exposed_share()},
          {"compute_ms", 1e3 * times.compute_s},
          {"gather_wait_ms", 1e3 * times.gather_wait_s},
          {"reduce_wait_ms", 1e3 * times.reduce_wait_s},
          {"exchange_wait_ms", 1e3 * times.exchange_wait_s},
          {"total_ms", 1e3 * times.total_s}};
}

// The least of three rounds on either side: what disturbs a run makes it wait longer.
ordered_json exposed_communication() {
  constexpr double kRate = 200e6;
  ordered_json rounds = ordered_json::array();
  double least_off = 1.0;
  double least_on = 1.0;
  for (int round = 0; round < 3; ++round) {
    const StepTimes off = step_times(false, kRate);
    const StepTimes on = step_times(true, kRate);
    least_off = std::min(least_off, off.exposed_share());
    least_on = std::min(least_on, on.exposed_share());
    rounds.push_back({{"prefetch_off", json_of(off)}, {"prefetch_on", json_of(on)}});
  }
  return {{"value", least_on / least_off},
          {"exposed_share_off", least_off},
          {"exposed_share_on", least_on},
          {"near_link_bytes_per_s", kRate},
          {"rounds", rounds},
          {"memory_as_it_is",
           {{"prefetch_off", json_of(step_times(false, 0.0))},
            {"prefetch_on", json_of(step_times(true, 0.0))}}}};
}

struct Trained {
  std::vector<float> parameters;
  std::uint64_t hash = 0;
};

Trained train(const std::function<std::unique_ptr<Optimizer>()>& optimizer, int ranks,
              Sharding sharding, bool of_gpt) {
  Trained result;
  test::SiteRunOptions run;
  run.world = {.sites = 1, .ranks = ranks};
  run.steps = 50;
  run.schedule.peak = 1e-3f;
  run.inside.sharding = sharding;
  run.optimizer = optimizer;
  run.model = [=](int, int rank) -> std::unique_ptr<Model> {
    if (!of_gpt) return std::make_unique<test::ToyModel>(test::ToyOptions{});
    return std::make_unique<Gpt>(GptOptions::preset("nano"), words(),
                                 BatchOptions{.global_batch = 8,
                                              .part = static_cast<std::size_t>(rank),
                                              .parts = static_cast<std::size_t>(ranks)});
  };
  run.at_end = [&](Trainer& trainer, int, int rank) {
    const std::vector<float> mine = test::gathered_parameters(trainer);
    const std::uint64_t hash = trainer.state_hash();
    if (rank != 0) return;
    result.parameters = mine;
    result.hash = hash;
  };
  test::run_sites(run);
  return result;
}

double worst_difference(const Trained& a, const Trained& b) {
  if (a.parameters.size() != b.parameters.size()) return 1e9;
  double worst = 0.0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a.parameters[i]) - b.parameters[i]));
  }
  return worst;
}

// Value: the worst difference of a parameter of AdamW's, or 1 for each run of one given gradient
// whose bits depend on ranks or strategy.
ordered_json full_vs_none() {
  const auto adamw = [] { return std::make_unique<Adamw>(Adamw::Options{}); };
  const auto distro = [] { return std::make_unique<Demo>(thinwire::distro(1)); };
  const double of_adamw = worst_difference(train(adamw, 1, Sharding::none, true),
                                           train(adamw, 4, Sharding::full, true));
  // Votes are signs: what rounding decides of a vote is a whole step, so this is told, not judged.
  const double of_distro = worst_difference(train(distro, 1, Sharding::none, true),
                                            train(distro, 4, Sharding::full, true));
  int differing = 0;
  const std::uint64_t expected = train(distro, 1, Sharding::none, false).hash;
  for (const int ranks : {1, 2, 4}) {
    for (const Sharding sharding :
         {Sharding::none, Sharding::optimizer, Sharding::gradient, Sharding::full}) {
      differing += train(distro, ranks, sharding, false).hash != expected ? 1 : 0;
    }
  }
  return {{"value", std::max(of_adamw, static_cast<double>(differing))},
          {"adamw_difference", of_adamw},
          {"distro_difference", of_distro},
          {"distro_runs_with_other_bits", differing}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, ordered_json (*)()> figures{
      {"exposed_communication", exposed_communication}, {"full_vs_none", full_vs_none}};
  const auto found = argc == 2 ? figures.find(argv[1]) : figures.end();
  if (found == figures.end()) {
    std::cerr << "usage: sharding_bench exposed_communication | full_vs_none\n";
    return 2;
  }
  std::cout << found->second().dump() << "\n";
  return 0;
}
