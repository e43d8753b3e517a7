// AdamW (Loshchilov & Hutter 2019, algorithm 2). On the mean gradient of all sites it is the
// baseline; the global norm of the mean is clipped first, across all shards of the site.
#pragma once

#include <cmath>

#include "optimizers/all_reduce.h"
#include "optimizers/arithmetic.h"
#include "thinwire/kernels.h"

namespace thinwire {

class AdamwRule final : public Rule {
 public:
  struct Options {
    float beta1 = 0.9f;
    float beta2 = 0.95f;
    float eps = 1e-8f;
  };
  explicit AdamwRule(Options options) : options_(options) {}

  std::vector<StateSpec> states(StateKind kind) const override {
    StateSpec t = spec("t", kind);
    t.extent = StateExtent::whole;
    return {spec("m", kind), spec("v", kind), std::move(t)};
  }
  bool on_device() const override { return true; }
  void begin(Shard& shard) const override { state(shard, "t")[0] += 1.0f; }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    const auto t = static_cast<std::uint64_t>(state(shard, "t")[0]);
    const double first = 1.0 - power(options_.beta1, t);
    const double second = 1.0 - power(options_.beta2, t);
    kernels::adamw(x, state(shard, "m", piece), state(shard, "v", piece), g,
                   {.scale = how.scale,
                    .beta1 = options_.beta1,
                    .beta2 = options_.beta2,
                    .keep = how.keep,
                    .rate = static_cast<float>(how.lr / first),
                    .v_scale = static_cast<float>(1.0 / std::sqrt(second)),
                    .eps = options_.eps});
  }

 private:
  Options options_;
};

struct Adamw final : AllReduce {
  struct Options : AdamwRule::Options {
    float weight_decay = 0.1f;
    float clip = 1.0f;
  };
  explicit Adamw(const Options& options)
      : AllReduce({.name = "adamw",
                   .suggested_lr = 8e-3f,
                   .weight_decay = options.weight_decay,
                   .clip = options.clip},
                  std::make_unique<AdamwRule>(options)) {}
};

}  // namespace thinwire
