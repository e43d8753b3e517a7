// The functions of moment_kernels.h on the host.
#include <cmath>

#include "src/kernels/dispatch.h"
#include "thinwire/error.h"
#include "thinwire/moment_kernels.h"

namespace thinwire::kernels {

void add_squares(Floats v, float beta, ConstFloats g) {
  TW_CHECK(v.size() == g.size());
  if (const DeviceKernels* twins = twins_for(v, g)) return twins->add_squares(v, beta, g);
  for (std::size_t i = 0; i < v.size(); ++i) {
    v[i] = beta * v[i] + (1.0f - beta) * (g[i] * g[i]);
  }
}

void moment_step(Floats x, ConstFloats m, ConstFloats v, const MomentStep& step) {
  TW_CHECK(x.size() == m.size() && x.size() == v.size());
  if (const DeviceKernels* twins = twins_for(x, m, v)) return twins->moment_step(x, m, v, step);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float move = step.rate * m[i] / (std::sqrt(v[i] / step.correction) + step.eps);
    x[i] = step.keep * x[i] - (v[i] > 0.0f ? move : 0.0f);
  }
}

}  // namespace thinwire::kernels
