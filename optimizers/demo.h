// Decoupled residuals, the largest coefficients, votes: DeMo (Peng, Quesnelle, Kingma 2024,
// algorithm 1), DisTrO as it is deployed, top-k with error feedback, and mural, thinwire's own, are
// one method with different settings (distro.h, topk.h, mural.h).
//
// Every site keeps a residual in the transform domain of each tile and says its largest
// coefficients.
//
//   extract:  E = decay E + T(rate signal(g));  say the k largest |E|;  E -= subtract E there
//
//   apply:    Q[j] = mean over the sites that said j (or sum / sites);  z = inverse T(Q)
//             x = (1 - lr wd) x - lr sign(z)                 sign
//                                 lr z / rms(z)              rms, over a block, times the rate
//                                                            of its kind
//                                 z                          linear (lr z without rate_inside)
//             clip_to_median: first what each site said of the tile is scaled down to the median
//             of the sites' norms
//
// signal(g) is the clipped gradient, or the direction in which a rule would move; rate is lr
// (rate_inside) or 1. With bits = 1 only the sign of a coefficient is sent; Q, its transform and
// its mean square are then integers, so that every machine agrees on every bit. Nothing is said of
// a coefficient that is exactly 0.
//
// With look-ahead c the gradient is taken at the parameters moved, as apply would with c lr, by
// what this site has not been heard with yet, E + in flight; a copy: parameters are never moved and
// undone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optimizers/rule.h"
#include "optimizers/tile_votes.h"
#include "thinwire/device.h"
#include "thinwire/kernels.h"
#include "thinwire/optimizer.h"
#include "thinwire/tile_kernels.h"

namespace thinwire {

enum class Combine { senders, sites };  // Q is divided by the sites that said j, or by all sites
enum class Follow { sign, rms, linear };

class Demo final : public Optimizer {
 public:
  struct Options {
    std::string name = "demo";
    float suggested_lr = 8e-3f;
    int k = 32;             // coefficients a tile, 1 .. 4096; with a budget the most of them
    int bits = 32;          // of a value: 32 (as in the paper) or 1 (votes)
    float decay = 0.999f;   // of the residual, 0 .. 1
    float subtract = 1.0f;  // share of a coefficient that saying it takes from E, above 0 .. 1
    float weight_decay = 0.0f;
    float clip = 1.0f;  // of this site's gradient, before anything else; 0: none
    std::shared_ptr<const Rule> signal = nullptr;  // none: the gradient itself
    bool rate_inside = true;
    Follow follow = Follow::sign;
    float matrix_rate = 0.5f;  // with rms, against lr: of hidden matrices,
    float table_rate = 1.0f;   // of tables,
    float vector_rate = 1.0f;  // and of vectors
    kernels::Basis basis = kernels::Basis::dct;
    Combine combine = Combine::senders;
    bool clip_to_median = false;  // what a site said of a tile, to the median norm; bits = 32
    int delay = 0;                // steps until an update is applied, 0 .. 8
    float look_ahead = 0.0f;      // c
    // What an update may take on the wire, frames aside; then k is the most, and what remembers
    // the sent is made for it: 8 k (delay + 1) bytes a tile. 0: no budget.
    double bytes_per_step = 0.0;
    double bits_per_second = 0.0;  // times the seconds that a step computes
  };

  explicit Demo(Options options);  // throws UsageError for settings out of range

  std::string_view name() const override { return options_.name; }
  Traits traits() const override;
  Update extract(const Step& step, Shard& shard) override;
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override;
  void take_back(const Step& said, Shard& shard, const Update& unheard) override;
  Floats gradient_point(const Step& step, Shard& shard) override;

 private:
  // x = keep x - rate sign(z), or z / rms(z), or z
  struct Pace {
    float keep;
    float rate;
  };
  Pace pace(const Step& step, float keep, float share) const;
  kernels::Lists lists(Floats sent, std::uint64_t step, std::size_t first_tile) const;
  int picks_now(const Step& step, const Shard& shard) const;
  Update said(kernels::Chosen chosen) const;
  void step_by_rms(const Shard& shard, const Piece& piece, double squares, ConstFloats z,
                   const Pace& pace, Floats x) const;
  void step_ahead(const Shard& shard, const Piece& piece, double squares, ConstFloats z,
                  const Pace& pace);

  Options options_;
  FloatBuffer point_;  // where the gradient is taken; made anew in every step
};

}  // namespace thinwire
