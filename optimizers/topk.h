// Top-k with error feedback (Aji & Heafield 2017; Stich et al. 2018): the largest values of what is
// owed, untransformed, and x moves by their mean over all sites. With signal = sgd the momentum is
// each site's own (Deep Gradient Compression, Lin et al. 2018, without its masking).
#pragma once

#include "optimizers/demo.h"

namespace thinwire {

inline Demo::Options topk() {
  return {.name = "topk",
          .suggested_lr = 0.1f,
          .k = 41,  // 1 % of a tile
          .bits = 32,
          .decay = 1.0f,
          .follow = Follow::linear,
          .basis = kernels::Basis::none,
          .combine = Combine::sites};
}

}  // namespace thinwire
