// 1-bit Adam (Tang et al. 2021). For `warmup` steps it is Adam on the mean gradient; then the
// second moment stands still, and each site says its momentum with one bit a value and a scale a
// tile:
//
//   m_s = b1 m + (1 - b1) g_s;  c_s = sign(m_s + e_s) mean|m_s + e_s|;  e_s = m_s + e_s - c_s
//
//   m = mean of c_s;  x = (1 - lr wd) x - lr m / (sqrt(v) + eps)
//
// A value that had no gradient in the warm-up has v = 0 and stays: a vote has no zero, and would
// throw it far. Everybody hears everybody, so the published second compression, at a server, has no
// place here.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "thinwire/optimizer.h"

namespace thinwire {

class OnebitAdam final : public Optimizer {
 public:
  struct Options {
    int warmup = 200;  // steps; 15 to 25 % of a run in the paper
    float beta1 = 0.9f;
    float beta2 = 0.95f;
    float eps = 1e-8f;
    float weight_decay = 0.1f;
    float clip = 1.0f;  // of this site's gradient
    int delay = 0;
  };
  explicit OnebitAdam(Options options) : options_(options) {}

  std::string_view name() const override { return "onebit_adam"; }
  Traits traits() const override;
  Update extract(const Step& step, Shard& shard) override;
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override;
  void take_back(const Step& said, Shard& shard, const Update& unheard) override;

 private:
  struct Said {
    std::span<const Contribution> heard;
    std::ptrdiff_t speakers = 0;
  };
  void follow_gradients(const Said& said, Shard& shard) const;
  static void follow_votes(const Said& said, Shard& shard);
  static void add_votes(const Shard& shard, const Picks& picks, Floats into);

  Options options_;
};

}  // namespace thinwire
