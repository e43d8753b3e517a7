// Decoupled momentum, DCT top-k, votes: DeMo (Peng, Quesnelle, Kingma 2024, algorithm 1) and DisTrO
// as it is deployed are one method with different settings.
//
// Every site keeps a residual in the transform domain of each tile and says its largest
// coefficients.
//
//   extract:  E = decay E + DCT(lr g);  say the k largest |E|;  E = 0 there
//
//   apply:    Q[j] = mean over the sites that said j (or sum / sites);
//             x = (1 - lr wd) x - lr sign(IDCT(Q))
//             clip_to_median: first what each site said of the tile is scaled down to the median
//             of the sites' norms
//
// With bits = 1 only the sign of a coefficient is sent, and Q and its transform are integers up to
// the sign, so that every machine agrees on every bit. Nothing is said of a coefficient that is
// exactly 0.
//
// With a delay the gradient is taken at x - lr c sign(IDCT(E + in flight)), a copy: each site looks
// ahead by what it has not yet been heard with.
#pragma once

#include <string>

#include "thinwire/optimizer.h"

namespace thinwire {

enum class Combine { senders, sites };  // Q is divided by the sites that said j, or by all sites

class Demo final : public Optimizer {
 public:
  struct Options {
    std::string name = "demo";
    int k = 32;            // coefficients a tile, 1 .. 4096
    int bits = 32;         // of a value: 32 (as in the paper) or 1 (votes)
    float decay = 0.999f;  // of the residual, 0 .. 1 (below 1)
    float weight_decay = 0.0f;
    float clip = 1.0f;  // of this site's gradient, before it meets the residual; 0: none
    Combine combine = Combine::senders;
    bool clip_to_median = false;  // what a site said of a tile, to the median norm; bits = 32
    int delay = 0;                // steps until an update is applied, 0 .. 8
    float look_ahead = 0.0f;      // c
  };
  // The settings DisTrO is deployed with on small models: votes, k = 8; with a delay it looks
  // ahead.
  static Options distro(int delay);

  explicit Demo(Options options);  // throws UsageError for settings out of range

  std::string_view name() const override { return options_.name; }
  Traits traits() const override;
  Update extract(const Step& step, Shard& shard) override;
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override;
  void take_back(const Step& said, Shard& shard, const Update& unheard) override;
  Floats gradient_point(const Step& step, Shard& shard) override;

 private:
  // The exact values of what was said of a tile in one of the last delay + 1 steps.
  struct Slot {
    Floats positions;  // k
    Floats values;     // k; 0 ends the list
  };
  Slot slot(Floats sent, std::size_t tile, std::uint64_t step) const;

  Options options_;
};

}  // namespace thinwire
