// Lion (Chen et al. 2023, algorithm 2): the sign of an interpolation of momentum and gradient.
// u = sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g; x -= lr u. Rates are 3 to 10 times smaller
// than AdamW's.
#pragma once

#include <cstddef>

#include "optimizers/rule.h"

namespace thinwire {

class LionRule final : public Rule {
 public:
  struct Options {
    float beta1 = 0.9f;
    float beta2 = 0.99f;
  };
  explicit LionRule(Options options) : options_(options) {}

  std::vector<StateSpec> states(StateKind kind) const override { return {spec("m", kind)}; }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    const Floats m = state(shard, "m", piece);
    const auto [b1, b2] = options_;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scaled = how.scale * g[i];
      const float u = b1 * m[i] + (1.0f - b1) * scaled;
      m[i] = b2 * m[i] + (1.0f - b2) * scaled;
      const float sign = static_cast<float>((u > 0.0f) - (u < 0.0f));
      x[i] = how.keep * x[i] - how.lr * sign;
    }
  }

 private:
  Options options_;
};

}  // namespace thinwire
