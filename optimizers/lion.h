// Lion (Chen et al. 2023, algorithm 2): the sign of an interpolation of momentum and gradient.
// u = sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g; x -= lr u. Rates are 3 to 10 times smaller
// than AdamW's.
#pragma once

#include "optimizers/rule.h"
#include "thinwire/kernels.h"

namespace thinwire {

class LionRule final : public Rule {
 public:
  struct Options {
    float beta1 = 0.9f;
    float beta2 = 0.99f;
  };
  explicit LionRule(Options options) : options_(options) {}

  std::vector<StateSpec> states(StateKind kind) const override { return {spec("m", kind)}; }
  bool on_device() const override { return true; }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    kernels::lion(x, state(shard, "m", piece), g,
                  {.scale = how.scale,
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .keep = how.keep,
                   .lr = how.lr});
  }

 private:
  Options options_;
};

}  // namespace thinwire
