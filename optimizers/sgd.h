// SGD with Nesterov momentum on the mean gradient of all sites, in torch's form (no dampening):
// m = mu m + g; x -= lr (g + mu m). The smallest optimizer of the tree: read this one first.
#pragma once

#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"

namespace thinwire {

class Sgd final : public Optimizer {
 public:
  struct Options {
    float momentum = 0.9f;  // mu, 0 .. 1
  };
  explicit Sgd(Options options) : options_(options) {}

  std::string_view name() const override { return "sgd"; }
  Traits traits() const override {
    return {.meeting = Meeting::reduce,
            .suggested_lr = 0.1f,
            .states = {{"momentum", StateKind::replicated}}};
  }
  Update extract(const Step&, Shard& shard) override { return dense_update(shard.grad()); }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    for (const auto& [site, mean] : heard) {
      kernels::scale_add(shard.state("momentum"), options_.momentum, mean.dense, 1.0f);
      kernels::scale_add(shard.params(), 1.0f, mean.dense, -step.lr);
      kernels::scale_add(shard.params(), 1.0f, shard.state("momentum"),
                         -step.lr * options_.momentum);
    }
    return {};
  }

 private:
  Options options_;
};

}  // namespace thinwire
