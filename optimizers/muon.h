// Muon (Jordan 2024): the momentum of each hidden matrix, orthogonalised by Newton-Schulz; tables
// and vectors follow AdamW. B = mu B + g; O = NS(g + mu B) sqrt(max(rows, cols)), whose entries
// have a mean square of about 1; x -= lr rate O, with `rate` against that of the rest.
#pragma once

#include <algorithm>
#include <cmath>

#include "optimizers/adamw.h"
#include "thinwire/device.h"

namespace thinwire {

// Rules of that kind: hidden matrices one way, with their momentum in m and no use for their v, the
// rest by AdamW.
class MatrixRule : public Rule {
 public:
  explicit MatrixRule(AdamwRule::Options rest) : rest_(rest) {}

  void call_states(std::string prefix) override {
    rest_.call_states(prefix);
    Rule::call_states(std::move(prefix));
  }
  std::vector<StateSpec> states(StateKind kind) const override { return rest_.states(kind); }
  bool whole_matrices() const override { return true; }
  void begin(Shard& shard) const override { rest_.begin(shard); }
  void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
            const Move& how) const override {
    if (!shard.layout().blocks()[piece.block].hidden) return rest_.move(shard, piece, g, x, how);
    move_matrix(piece, state(shard, "m", piece), g, x, how);
  }

 protected:
  virtual void move_matrix(const Piece& piece, Floats m, ConstFloats g, Floats x,
                           const Move& how) const = 0;
  // What brings the mean square of an orthogonal matrix of that size to 1.
  static double unit_size(const Piece& piece) {
    return std::sqrt(static_cast<double>(std::max(piece.rows, piece.cols)));
  }

 private:
  AdamwRule rest_;
};

class MuonRule final : public MatrixRule {
 public:
  struct Options {
    float momentum = 0.95f;  // mu, 0 .. 1
    float matrix_rate = 0.5f;
    AdamwRule::Options rest = {};
  };
  explicit MuonRule(Options options) : MatrixRule(options.rest), options_(options) {}

  bool on_device() const override { return true; }

 private:
  void move_matrix(const Piece& piece, Floats b, ConstFloats g, Floats x,
                   const Move& how) const override {
    kernels::scale_add(b, options_.momentum, g, how.scale);
    FloatBuffer o(b, b.device());
    kernels::scale_add(o, options_.momentum, g, how.scale);
    kernels::orthogonalize(piece.rows, piece.cols, o);
    const double rate = -how.lr * options_.matrix_rate * unit_size(piece);
    kernels::scale_add(x, how.keep, o, static_cast<float>(rate));
  }

  Options options_;
};

}  // namespace thinwire
