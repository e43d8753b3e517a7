// Muon residual and look-ahead: every site's Muon direction goes into a residual, the largest
// coefficients are votes, and what was voted is normalised to a mean square of 1 in every block.
// The gradient is taken where the site would be if all it owes had arrived. thinwire's own; the
// search that found these settings was made at 0.12 million parameters (docs/optimizers.md).
#pragma once

#include "optimizers/demo.h"
#include "optimizers/rules.h"

namespace thinwire {

// Of Muon, which makes its signal.
inline constexpr RuleDefaults kMuralSignal{.momentum = 0.9f, .beta1 = 0.9f};

// How far to look ahead, in learning rates: what is in flight for long counts as well.
inline float mural_look_ahead(int delay) { return delay == 0 ? 2.0f : delay == 1 ? 3.0f : 4.0f; }

inline Demo::Options mural(int delay) {
  return {.name = "mural",
          .suggested_lr = 1.6e-2f,
          .k = 16,
          .bits = 1,
          .decay = 0.99f,
          .weight_decay = 0.1f,
          .rate_inside = false,
          .follow = Follow::rms,
          .table_rate = 0.5f,
          .vector_rate = 0.2f,
          .combine = Combine::sites,
          .delay = delay,
          .look_ahead = mural_look_ahead(delay)};
}

}  // namespace thinwire
