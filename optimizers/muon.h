// Muon (Jordan 2024): the momentum of each hidden matrix, orthogonalised by Newton-Schulz; tables
// and vectors follow AdamW. B = mu B + g; O = NS(g + mu B) sqrt(max(rows, cols)), whose entries
// have a mean square of about 1; x -= lr rate O, with `rate` against that of the rest.
#pragma once

#include <algorithm>
#include <cmath>

#include "optimizers/adamw.h"

namespace thinwire {

class MuonRule final : public Rule {
 public:
  struct Options {
    float momentum = 0.95f;  // mu, 0 .. 1
    float matrix_rate = 0.5f;
    AdamwRule::Options rest = {};
  };
  explicit MuonRule(Options options) : options_(options), rest_(options.rest) {}

  // Hidden matrices keep B in m, and have no use for their v.
  void call_states(std::string prefix) override {
    rest_.call_states(prefix);
    Rule::call_states(std::move(prefix));
  }
  std::vector<StateSpec> states(StateKind kind) const override { return rest_.states(kind); }
  bool whole_matrices() const override { return true; }
  void begin(Shard& shard) const override { rest_.begin(shard); }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    const Block& block = shard.layout().blocks()[piece.block];
    if (!block.hidden) return rest_.move(shard, piece, g, x, how);
    const Floats b = state(shard, "m", piece);
    kernels::scale_add(b, options_.momentum, g, how.scale);
    std::vector<float> o(b.begin(), b.end());
    kernels::scale_add(o, options_.momentum, g, how.scale);
    kernels::orthogonalize(piece.rows, piece.cols, o);
    const double size = std::sqrt(static_cast<double>(std::max(piece.rows, piece.cols)));
    kernels::scale_add(x, how.keep, o, static_cast<float>(-how.lr * options_.matrix_rate * size));
  }

 private:
  Options options_;
  AdamwRule rest_;
};

}  // namespace thinwire
