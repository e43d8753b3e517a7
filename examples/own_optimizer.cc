// An optimizer from outside the tree, trained and compared by the program it is given to:
//   own_optimizer compare --methods adamw,sparse_votes --steps 300
// Momentum in the transform domain; the signs of each tile's k largest are said and forgotten.
#include <utility>
#include <vector>

#include "optimizers/catalog.h"
#include "optimizers/tile_votes.h"
#include "thinwire/kernels.h"
#include "thinwire/program.h"

using namespace thinwire;

class SparseVotes final : public Optimizer {
 public:
  explicit SparseVotes(int k) : chosen_(k) {}
  std::string_view name() const override { return "sparse_votes"; }
  Traits traits() const override {
    return {.suggested_lr = 8e-3f,
            .states = {{"momentum", StateKind::own, StateExtent::coefficients}}};
  }

  Update extract(const Step&, Shard& shard) override {
    Update said{.picks = {.value_bits = 1}};
    for (const Tile& tile : shard.tiles()) {
      const Floats momentum =
          shard.state("momentum").subspan(tile.coefficients, tile.height * tile.width);
      kernels::fold(tile, shard.grad(), 0.99f, 1.0f, momentum);
      const std::size_t count = kernels::top_k(momentum, chosen_.size(), chosen_.data());
      said.picks.counts.push_back(static_cast<std::uint16_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        said.picks.positions.push_back(chosen_[i]);
        said.picks.codes.push_back(vote_code(std::exchange(momentum[chosen_[i]], 0.0f)));
      }
    }
    return said;
  }

  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    std::vector<float> direction(shard.params().size());
    TileVotes votes(heard);
    for (const Tile& tile : shard.tiles()) {
      votes.next_tile();
      kernels::inverse_votes(tile, votes.positions(), votes.vote_means(step.sites), direction);
    }
    kernels::sign_step(shard.params(), 1.0f, step.lr, direction);
    return {};
  }

  std::vector<std::uint16_t> chosen_;  // scratch, k long
};

int main(int argc, char** argv) {
  OptimizerCatalog catalog = optimizer_catalog();
  catalog.add("sparse_votes", "the example of examples/own_optimizer.cc", [](Settings& settings) {
    return std::make_unique<SparseVotes>(settings.integer("k", 8, 1, 4096));
  });
  return run_program(argc, argv, catalog);
}
