// Signum with majority vote (Bernstein et al. 2018): one bit a parameter and step. Each site votes
// with the sign of its own momentum m = b m + (1 - b) g; x = (1 - lr wd) x - lr sign(sum of votes).
// A tie moves nothing, and nothing is said of a momentum that is exactly 0. There is no error
// feedback: what the vote rounds away is gone.
#pragma once

#include <string_view>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/tile_values.h"
#include "thinwire/coarse_kernels.h"
#include "thinwire/device.h"
#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"

namespace thinwire {

class Signum final : public Optimizer {
 public:
  struct Options {
    float momentum = 0.9f;  // b
    float weight_decay = 0.1f;
    float clip = 1.0f;  // of this site's gradient
    int delay = 0;
  };
  explicit Signum(Options options) : options_(options) {}

  std::string_view name() const override { return "signum"; }
  Traits traits() const override {
    return {.delay = options_.delay,
            .suggested_lr = 1e-3f,
            .states = {{"m", StateKind::own, StateExtent::elements, 1, false, true}},
            .form = {.dense = false, .value_bits = 1, .scales = false},
            .on_device = true};
  }
  Update extract(const Step& step, Shard& shard) override {
    const Floats m = shard.state("m");
    kernels::scale_add(m, options_.momentum, shard.grad(),
                       (1.0f - options_.momentum) * clip_factor(step.norm, options_.clip));
    kernels::Words words;
    kernels::say_signs(shard.tiles(), m, words);
    return {.picks = picks_of(std::move(words), 1)};
  }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    const Floats votes = shard.grad();  // used up
    zero(votes);
    for (const Contribution& one : heard) {
      kernels::add_signs(shard.tiles(), words_of(one.update.picks), votes);
    }
    kernels::sign_step(shard.params(), 1.0f - step.lr * options_.weight_decay, step.lr, votes);
    return {};
  }

 private:
  Options options_;
};

}  // namespace thinwire
