// AdamW (Loshchilov & Hutter 2019, algorithm 2) on the mean gradient of all sites: the baseline.
// The global norm of the mean is clipped first, across all shards of the site.
#pragma once

#include <cmath>

#include "optimizers/arithmetic.h"
#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"

namespace thinwire {

class Adamw final : public Optimizer {
 public:
  struct Options {
    float beta1 = 0.9f;
    float beta2 = 0.95f;
    float eps = 1e-8f;
    float weight_decay = 0.1f;  // decoupled: x *= 1 - lr * weight_decay
    float clip = 1.0f;          // largest global norm; 0: no clipping
  };
  explicit Adamw(Options options) : options_(options) {}

  std::string_view name() const override { return "adamw"; }
  Traits traits() const override {
    return {.meeting = Meeting::reduce,
            .suggested_lr = 8e-3f,
            .states = {{"m", StateKind::replicated},
                       {"v", StateKind::replicated},
                       {"t", StateKind::replicated, StateExtent::whole, 1}}};
  }
  Update extract(const Step&, Shard& shard) override { return dense_update(shard.grad()); }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    for (const auto& [site, mean] : heard) {
      const auto t = static_cast<std::uint64_t>(shard.state("t")[0] += 1.0f);
      const double first = 1.0 - power(options_.beta1, t);
      const double second = 1.0 - power(options_.beta2, t);
      kernels::adamw(shard.params(), shard.state("m"), shard.state("v"), mean.dense,
                     {.scale = clip_factor(step.norm, options_.clip),
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .keep = 1.0f - step.lr * options_.weight_decay,
                      .rate = static_cast<float>(step.lr / first),
                      .v_scale = static_cast<float>(1.0 / std::sqrt(second)),
                      .eps = options_.eps});
    }
    return {};
  }

 private:
  Options options_;
};

}  // namespace thinwire
