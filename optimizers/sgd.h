// SGD with Nesterov momentum in torch's form (no dampening): m = mu m + g; x -= lr (g + mu m). The
// smallest rule of the tree: read this one first.
#pragma once

#include "optimizers/all_reduce.h"
#include "thinwire/kernels.h"

namespace thinwire {

class SgdRule final : public Rule {
 public:
  explicit SgdRule(float momentum) : momentum_(momentum) {}

  std::vector<StateSpec> states(StateKind kind) const override { return {spec("momentum", kind)}; }
  bool on_device() const override { return true; }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    const Floats m = state(shard, "momentum", piece);
    kernels::scale_add(m, momentum_, g, how.scale);
    kernels::scale_add(x, how.keep, g, -how.lr * how.scale);
    kernels::scale_add(x, 1.0f, m, -how.lr * momentum_);
  }

 private:
  float momentum_;  // mu, 0 .. 1
};

// On the mean gradient of all sites.
struct Sgd final : AllReduce {
  struct Options {
    float momentum = 0.9f;
  };
  explicit Sgd(Options options)
      : AllReduce({.name = "sgd", .suggested_lr = 0.1f},
                  std::make_unique<SgdRule>(options.momentum)) {}
};

}  // namespace thinwire
