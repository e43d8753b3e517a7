// Adam in two halves, for methods whose moments do not come from one gradient. Marked [replicated]
// as in kernels.h, whose rules these share.
#pragma once

#include "thinwire/types.h"

namespace thinwire::kernels {

// v = beta v + (1 - beta) g^2                                                          [replicated]
void add_squares(Floats v, float beta, ConstFloats g);

// x = keep x - rate m / (sqrt(v / correction) + eps), and keep x alone where v is 0    [replicated]
struct MomentStep {
  float keep = 1.0f;        // 1 - lr * weight decay
  float rate = 1e-3f;       // lr, or lr / (1 - beta1^t)
  float correction = 1.0f;  // 1 - beta2^t
  float eps = 1e-8f;
};
void moment_step(Floats x, ConstFloats m, ConstFloats v, const MomentStep& step);

}  // namespace thinwire::kernels
