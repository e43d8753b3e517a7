// Small arithmetic that plug-ins share. Basic operations only: the results decide replicated bits.
#pragma once

#include <cstdint>

namespace thinwire {

// base^n by repeated squaring; libm's pow may differ by an ulp between machines.
inline double power(double base, std::uint64_t n) {
  double result = 1.0;
  for (; n > 0; n /= 2, base *= base) {
    if (n % 2 == 1) result *= base;
  }
  return result;
}

// What a gradient of that global L2 norm is scaled by so that its norm is at most `clip`; 0: no
// clipping.
inline float clip_factor(double norm, float clip) {
  return clip > 0.0f && norm > clip ? static_cast<float>(clip / norm) : 1.0f;
}

}  // namespace thinwire
