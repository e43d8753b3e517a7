// Data-parallel training as everybody knows it, with any rule: the mean gradient of all sites, in
// every step. Four bytes a parameter and step: the baseline of everything else here.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/rule.h"
#include "thinwire/optimizer.h"

namespace thinwire {

class AllReduce : public Optimizer {
 public:
  struct Options {
    std::string name;
    float suggested_lr = 1e-3f;
    float weight_decay = 0.0f;  // decoupled: x *= 1 - lr * weight_decay
    float clip = 0.0f;          // largest global norm of the mean gradient; 0: no clipping
  };
  AllReduce(Options options, std::unique_ptr<Rule> rule)
      : options_(std::move(options)), rule_(std::move(rule)) {}

  std::string_view name() const override { return options_.name; }
  Traits traits() const override {
    return {.meeting = Meeting::reduce,
            .whole_matrices = rule_->whole_matrices(),
            .suggested_lr = options_.suggested_lr,
            .states = rule_->states(StateKind::replicated),
            .on_device = rule_->on_device()};
  }
  Update extract(const Step&, Shard& shard) override { return dense_update(shard.grad()); }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    const Move how{.lr = step.lr,
                   .keep = 1.0f - step.lr * options_.weight_decay,
                   .scale = clip_factor(step.norm, options_.clip)};
    for (const Contribution& one : heard) {
      const Near mean(one.update.dense, shard.device());
      rule_->begin(shard);
      for (const Piece& piece : shard.pieces()) {
        rule_->move(shard, piece, part(mean, piece), part(shard.params(), piece), how);
      }
    }
    return {};
  }

 private:
  Options options_;
  std::unique_ptr<Rule> rule_;
};

}  // namespace thinwire
