// The formulas of gpt_math.cc. What the product has left gets its bias here, so that nobody has to
// read it once more for that.
#include <cmath>

#include "models/gpt_kernels.cuh"
#include "models/gpt_warp.cuh"

namespace thinwire::gpt {
namespace {

// gelu(x) = x (1 + t) / 2, t = tanh(a x + b x^3).
__global__ void gelu_kernel(Activations how) {
  constexpr float kA = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kB = kA * 0.044715f;
  for (std::size_t i = global_thread(); i < how.rows * how.hidden; i += all_threads()) {
    float x = how.x[i];
    if (how.bias != nullptr) x += how.bias[i % how.hidden];
    const float square = x * x;
    const float t = tanhf(x * (kA + kB * square));
    how.active[i] = 0.5f * x * (1.0f + t);
    how.x[i] = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * (kA + 3.0f * kB * square);
  }
}

// silu(x) = x s, s = 1 / (1 + exp(-x)); silu'(x) = s (1 + x (1 - s)).
__global__ void swiglu_kernel(Activations how) {
  for (std::size_t i = global_thread(); i < how.rows * how.hidden; i += all_threads()) {
    const std::size_t col = i % how.hidden;
    float* x = how.x + i / how.hidden * 2 * how.hidden + col;
    float gate = x[0];
    float up = x[how.hidden];
    if (how.bias != nullptr) {
      gate += how.bias[col];
      up += how.bias[how.hidden + col];
    }
    const float s = 1.0f / (1.0f + expf(-gate));
    const float silu = gate * s;
    how.active[i] = silu * up;
    x[0] = s * (1.0f + gate - silu) * up;
    x[how.hidden] = silu;
  }
}

__global__ void activation_backward_kernel(ActivationGradient how) {
  for (std::size_t i = global_thread(); i < how.rows * how.hidden; i += all_threads()) {
    const float d = how.d_active[i];
    float* x = how.x + i / how.hidden * how.inner + i % how.hidden;
    x[0] *= d;
    if (how.inner != how.hidden) x[how.hidden] *= d;
  }
}

}  // namespace

void gelu(int device, const Activations& how) {
  device::launch(device, gelu_kernel, device::shape_for(how.rows * how.hidden), how);
}

void swiglu(int device, const Activations& how) {
  device::launch(device, swiglu_kernel, device::shape_for(how.rows * how.hidden), how);
}

void activation_backward(int device, const ActivationGradient& how) {
  device::launch(device, activation_backward_kernel, device::shape_for(how.rows * how.hidden), how);
}

}  // namespace thinwire::gpt
