// A method that speaks in every so many steps: the sum of its gradients since then.
#pragma once

#include <algorithm>

#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"

namespace thinwire::test {

class Rarely final : public Optimizer {
 public:
  struct Options {
    std::uint64_t every = 5;
    int delay = 0;
    Meeting meeting = Meeting::gather;
  };
  explicit Rarely(Options options) : options_(options) {}

  std::string_view name() const override { return "rarely"; }
  Traits traits() const override {
    // "beats" counts the calls of apply, which come in silent steps, too.
    return {.meeting = options_.meeting,
            .delay = options_.delay,
            .states = {{"sum", StateKind::own},
                       {"beats", StateKind::replicated, StateExtent::whole, 1}}};
  }
  bool speaks(const Step& step) const override { return (step.index + 1) % options_.every == 0; }

  Update extract(const Step& step, Shard& shard) override {
    const Floats sum = shard.state("sum");
    kernels::scale_add(sum, 1.0f, shard.grad(), 1.0f);
    if (!step.speaks) return {};
    Update update = dense_update(sum);
    std::ranges::fill(sum, 0.0f);
    return update;
  }

  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    shard.state("beats")[0] += 1.0f;
    const float lr = step.lr / static_cast<float>(options_.every);
    for (const Contribution& one : heard) {
      kernels::scale_add(shard.params(), 1.0f, one.update.dense, -lr);
    }
    return {};
  }

  void take_back(const Step&, Shard& shard, const Update& unheard) override {
    if (!unheard.empty()) kernels::scale_add(shard.state("sum"), 1.0f, unheard.dense, 1.0f);
  }

 private:
  Options options_;
};

}  // namespace thinwire::test
