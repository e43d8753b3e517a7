// Peak memory of each rank for every sharding strategy, counted allocation by allocation, beside
// the formula of docs/sharding.md. Ranks are threads: who allocates is written in front of each
// block.
//   memory_bench                 a table: method x strategy x ranks
//   memory_bench shard_memory    one JSON object: the worst excess over the formula, in percent, of
//                                `full` on 4 ranks
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/gpt.h"
#include "models/text.h"
#include "optimizers/catalog.h"
#include "tests/support/site_run.h"

namespace {

constexpr int kOwners = 16;  // the last: threads that nobody has named yet

std::atomic<long> g_live[kOwners];
std::atomic<long> g_peak[kOwners];
thread_local int t_owner = kOwners - 1;

struct Block {
  void* base;
  std::size_t size;
  int owner;
};

void count(int owner, long bytes) {
  const long now = g_live[owner].fetch_add(bytes) + bytes;
  long peak = g_peak[owner].load();
  while (now > peak && !g_peak[owner].compare_exchange_weak(peak, now)) {
  }
}

void* take(std::size_t size, std::size_t align) {
  align = std::max<std::size_t>(align, 16);
  void* base = std::malloc(size + align + sizeof(Block));
  if (base == nullptr) throw std::bad_alloc();
  const auto first = reinterpret_cast<std::uintptr_t>(base) + sizeof(Block);
  const std::uintptr_t at = (first + align - 1) / align * align;
  new (reinterpret_cast<void*>(at - sizeof(Block))) Block{base, size, t_owner};
  count(t_owner, static_cast<long>(size));
  return reinterpret_cast<void*>(at);
}

void give(void* p) noexcept {
  if (p == nullptr) return;
  const Block block = *reinterpret_cast<Block*>(static_cast<char*>(p) - sizeof(Block));
  count(block.owner, -static_cast<long>(block.size));
  std::free(block.base);
}

}  // namespace

void* operator new(std::size_t size) { return take(size, 16); }
void* operator new[](std::size_t size) { return take(size, 16); }
void* operator new(std::size_t size, std::align_val_t align) {
  return take(size, std::size_t(align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return take(size, std::size_t(align));
}
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give(p); }

namespace {

using namespace thinwire;
using nlohmann::ordered_json;

constexpr double kMiB = 1 << 20;
constexpr int kSteps = 3;

// Names the thread that works on the near link.
class Named final : public Collective {
 public:
  explicit Named(Collective& near) : near_(near) {}
  int rank() const override { return near_.rank(); }
  int size() const override { return near_.size(); }
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override {
    t_owner = rank();
    near_.reduce_scatter_mean(whole, mine, cuts);
  }
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override {
    t_owner = rank();
    near_.all_gather(mine, whole, cuts);
  }
  void all_reduce_mean(Floats whole) override {
    t_owner = rank();
    near_.all_reduce_mean(whole);
  }
  void broadcast(Floats data, int root) override { near_.broadcast(data, root); }
  void barrier() override { near_.barrier(); }
  Traffic traffic() const override { return near_.traffic(); }

 private:
  Collective& near_;
};

struct Case {
  std::string method;
  Sharding sharding = Sharding::full;
  int ranks = 1;
};

struct Measured {
  double peak = 0.0;         // bytes, of the rank that had most
  double activations = 0.0;  // what the model has taken before the first step
  double formula = 0.0;
  double message = 0.0;  // what a method that reduces holds to say: its gradient once more
};

// All in bytes, of one rank. A message is there when the units' buffers are not.
double formula(const Case& run, const Layout& layout, double state, double activations,
               double message) {
  const double n = run.ranks;
  const double model = static_cast<double>(layout.trainable_size()) * sizeof(float);
  double unit = 0.0;
  for (int u = 0; u < layout.units(); ++u) {
    unit = std::max(unit, static_cast<double>(layout.unit_size(u)) * sizeof(float));
  }
  const double parts = (2 * model + state) / n;
  if (run.ranks == 1) return parts + activations + message;
  switch (run.sharding) {
    case Sharding::none:
      return 2 * model + state + activations + message;
    case Sharding::optimizer:
      return parts + 2 * model + activations + message;
    case Sharding::gradient:
      return parts + model + activations + std::max(unit, message);
    case Sharding::full:
      break;
  }
  return parts + activations + std::max(2 * unit, message);
}

GptOptions deep() {
  GptOptions options = GptOptions::preset("tiny");
  options.layers = 24;
  options.width = 128;
  options.context = 32;
  options.recompute = true;
  return options;
}

Measured measure(const Case& run) {
  const Text text = Text::from_bytes(std::vector<std::uint8_t>(50'000, 'a'));
  const OptimizerCatalog catalog = optimizer_catalog();
  LoopbackWorld world({.sites = 1, .ranks = run.ranks});
  std::vector<long> before(run.ranks), model_bytes(run.ranks), state_bytes(run.ranks);
  Measured result;
  const long nobody = g_live[kOwners - 1];
  for (auto& peak : g_peak) peak = 0;
  std::atomic<long> unnamed = 0;
  std::unique_ptr<Layout> layout;
  bool reduces = false;
  test::run_threads(run.ranks, [&](int rank) {
    t_owner = rank;
    before[rank] = g_live[rank];
    Gpt model(deep(), text,
              {.global_batch = static_cast<std::size_t>(run.ranks),
               .part = static_cast<std::size_t>(rank),
               .parts = static_cast<std::size_t>(run.ranks)});
    model_bytes[rank] = g_live[rank] - before[rank];
    Named near(world.near(0, rank));
    Settings settings(run.method);
    const auto optimizer = catalog.make(run.method, settings);
    const auto sync = test::sync_for(optimizer->traits(), world, 0, rank);
    Trainer trainer(model, near, *optimizer, *sync,
                    {.schedule = {.shape = ScheduleShape::constant, .peak = 1e-3f},
                     .site = {.sharding = run.sharding}});
    for (int step = 0; step < kSteps; ++step) trainer.step();
    if (rank == 0) unnamed = g_live[kOwners - 1] - nobody;
    for (const StateSpec& spec : trainer.shard().states()) {
      state_bytes[rank] += trainer.shard().state(spec.name).size_bytes();
    }
    if (rank == 0) {
      layout = std::make_unique<Layout>(trainer.layout());
      reduces = optimizer->traits().meeting == Meeting::reduce;
    }
  });
  // What a near thread that had no name yet has taken, and keeps, is dealt to all.
  const double kept = static_cast<double>(unnamed) / run.ranks;
  double state = 0.0;
  for (int rank = 0; rank < run.ranks; ++rank) {
    result.peak = std::max(result.peak, static_cast<double>(g_peak[rank] - before[rank]) + kept);
    result.activations = std::max(result.activations, static_cast<double>(model_bytes[rank]));
    state += static_cast<double>(state_bytes[rank]);
  }
  if (run.sharding == Sharding::none) state /= run.ranks;
  if (reduces) {
    result.message = static_cast<double>(layout->trainable_size()) * sizeof(float) /
                     (run.sharding == Sharding::none ? 1 : run.ranks);
  }
  result.formula = formula(run, *layout, state, result.activations, result.message);
  return result;
}

void print_table() {
  std::printf("%-8s %-10s %5s %12s %12s %8s\n", "method", "sharding", "ranks", "peak MiB",
              "formula MiB", "differ");
  for (const char* method : {"adamw", "sgd", "distro"}) {
    for (const Sharding sharding :
         {Sharding::none, Sharding::optimizer, Sharding::gradient, Sharding::full}) {
      for (const int ranks : {1, 2, 4, 8}) {
        const Measured one = measure({method, sharding, ranks});
        std::printf("%-8s %-10s %5d %12.2f %12.2f %+7.1f%%\n", method, to_string(sharding), ranks,
                    one.peak / kMiB, one.formula / kMiB, 100 * (one.peak / one.formula - 1));
      }
    }
  }
}

ordered_json shard_memory() {
  ordered_json methods;
  double worst = -100.0;
  for (const char* method : {"adamw", "sgd", "distro"}) {
    const Measured one = measure({method, Sharding::full, 4});
    const double above = 100 * (one.peak / one.formula - 1);
    methods[method] = {{"peak_mib", one.peak / kMiB},
                       {"formula_mib", one.formula / kMiB},
                       {"message_mib", one.message / kMiB},
                       {"activations_mib", one.activations / kMiB},
                       {"above_percent", above}};
    worst = std::max(worst, above);
  }
  return {{"value", worst}, {"methods", methods}};
}

}  // namespace

int main(int argc, char** argv) {
  measure({"distro", Sharding::full, 2});  // tables that the first user makes are everyone's
  if (argc == 1) {
    print_table();
    return 0;
  }
  if (argc != 2 || std::string(argv[1]) != "shard_memory") {
    std::cerr << "usage: memory_bench [shard_memory]\n";
    return 2;
  }
  std::cout << shard_memory().dump() << "\n";
  return 0;
}
