#include "apps/optimizers_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "src/codec/codec.h"

namespace thinwire::app {
namespace {

// Small, and of whole tiles: what a method says of it is what it says of a tile of a large model.
// Two units, for methods that take them in turn.
constexpr std::size_t kSide = 128;
constexpr std::uint64_t kSteps = 60;
// Past any warm-up.
constexpr std::uint64_t kFirstStep = 60'000;

Layout small_layout() { return Layout({{"a", {kSide, kSide}, 0}, {"b", {kSide, kSide}, 1}}); }

// Numbers that look like noise.
void fill_with_noise(std::uint64_t step, Floats values) {
  std::uint64_t state = (step + 1) * 0x9e3779b97f4a7c15u;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
}

// Bytes a parameter and step that one site says, frames aside, counted over some steps of a run.
double said_bytes(Optimizer& optimizer, const Traits& traits) {
  const Layout layout = small_layout();
  Shard shard(layout, 0, 1, traits.states);
  std::vector<std::uint32_t> tiles;
  for (const Tile& tile : shard.tiles()) {
    tiles.push_back(static_cast<std::uint32_t>(tile.height * tile.width));
  }
  const Shape shape{shard.params().size(), tiles};
  double bytes = 0.0;
  for (std::uint64_t index = kFirstStep; index < kFirstStep + kSteps; ++index) {
    Step step{.index = index, .lr = 1e-3f, .norm = 1.0};
    optimizer.gradient_point(step, shard);
    fill_with_noise(index, shard.grad());
    Update said = optimizer.extract(step, shard);
    for (step.phase = 0; step.phase < traits.phases; ++step.phase) {
      std::vector<Contribution> heard;
      if (!said.empty()) {
        bytes += traits.meeting == Meeting::reduce
                     ? static_cast<double>(said.dense.size() * sizeof(float))
                     : static_cast<double>(encode(said, shape).size());
        heard.push_back({0, std::move(said)});
      }
      said = optimizer.apply(step, shard, heard);
    }
  }
  return bytes / static_cast<double>(kSteps * shard.params().size());
}

// Bytes a parameter, in whole tiles; states of a few floats are nothing.
double state_bytes(const Traits& traits, StateKind kind) {
  double floats = 0.0;
  for (const StateSpec& spec : traits.states) {
    if (spec.kind != kind || spec.extent == StateExtent::whole) continue;
    const bool per_tile = spec.extent == StateExtent::per_tile;
    floats += per_tile ? static_cast<double>(spec.count) / (kTileSide * kTileSide) : 1.0;
  }
  return floats * sizeof(float);
}

std::string cost(Optimizer& optimizer, const Settings& settings) {
  const Traits traits = optimizer.traits();
  const double own = state_bytes(traits, StateKind::own);
  const double replicated = state_bytes(traits, StateKind::replicated);
  std::string text = fmt::format("{:.3g} bytes of state and {:.3g} {} a parameter",
                                 own + replicated, said_bytes(optimizer, traits),
                                 traits.meeting == Meeting::reduce ? "all-reduced" : "said");
  text += traits.phases > 1 ? fmt::format(", in {} exchanges", traits.phases) : "";
  text += traits.whole_matrices ? "; whole matrices" : "";
  const bool delays = traits.meeting == Meeting::gather && settings.resolved().contains("delay");
  text += delays ? "; delay 0 .. 8" : "";
  return text;
}

}  // namespace

void list_optimizers(const OptimizerCatalog& catalog) {
  std::cout << "Bytes of state on a rank, and bytes that a site says in a step, by default.\n\n";
  for (const std::string& name : catalog.names()) {
    Settings settings(name);
    const auto optimizer = catalog.make(name, settings);
    std::cout << name << "\n  " << catalog.row(name).about << "\n  " << cost(*optimizer, settings)
              << "\n ";
    for (const auto& [key, value] : settings.resolved()) std::cout << " " << key << "=" << value;
    std::cout << "\n";
  }
}

}  // namespace thinwire::app
