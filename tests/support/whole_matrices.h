// A method that needs whole matrices, as small as it gets: hidden matrices move by their momentum
// divided by its Frobenius norm.
#pragma once

#include <cmath>

#include "thinwire/error.h"
#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"

namespace thinwire::test {

class Normalised final : public Optimizer {
 public:
  struct Options {
    int delay = 0;
    bool whole = true;  // or as a method would that needs none, for one rank
  };
  explicit Normalised(Options options) : options_(options) {}

  std::string_view name() const override { return "normalised"; }
  Traits traits() const override {
    return {.whole_matrices = options_.whole,
            .delay = options_.delay,
            .states = {{"momentum", StateKind::own}, {"steps", StateKind::replicated}}};
  }

  Update extract(const Step&, Shard& shard) override {
    const Floats momentum = shard.state("momentum");
    kernels::scale_add(momentum, 0.9f, shard.grad(), 1.0f);
    Update update = dense_update(momentum);
    for (const Piece& piece : shard.pieces()) {
      const Block& block = shard.layout().blocks()[piece.block];
      TW_CHECK(piece.size == block.size);
      if (!block.hidden) continue;
      double squares = 0.0;
      const Floats values = Floats(update.dense).subspan(piece.offset, piece.size);
      for (const float value : values) squares += static_cast<double>(value) * value;
      const double norm = std::sqrt(squares);
      for (float& value : values) value = norm > 0.0 ? static_cast<float>(value / norm) : 0.0f;
    }
    return update;
  }

  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    for (const Contribution& one : heard) {
      kernels::scale_add(shard.params(), 1.0f, one.update.dense, -step.lr);
      kernels::scale_add(shard.state("steps"), 1.0f, one.update.dense, 1.0f);
    }
    return {};
  }

 private:
  Options options_;
};

}  // namespace thinwire::test
