// The passes of elementwise.cc, moments.cc and ranges.cc on a device: a thread for a value, or for
// a few of them a grid apart, and every operation rounded on its own.
#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"
#include "src/kernels/bf16.h"
#include "src/kernels/flat_twins.h"

namespace thinwire::kernels {
namespace {

constexpr unsigned kThreads = 256;

__device__ __forceinline__ std::size_t first_value() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::size_t grid_step() { return std::size_t{gridDim.x} * blockDim.x; }

__global__ void __launch_bounds__(kThreads)
    scale_add_kernel(float* __restrict__ y, float a, const float* __restrict__ x, float b,
                     std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    y[i] = __fadd_rn(__fmul_rn(a, y[i]), __fmul_rn(b, x[i]));
  }
}

__global__ void __launch_bounds__(kThreads) scale_kernel(float* y, float a, std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) y[i] = __fmul_rn(a, y[i]);
}

__global__ void __launch_bounds__(kThreads) divide_kernel(float* y, float a, std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) y[i] = __fdiv_rn(y[i], a);
}

// lr towards the sign of `along`, whose zeros move nothing.
__device__ __forceinline__ float signed_step(float along, float lr) {
  return along > 0.0f ? lr : along < 0.0f ? -lr : 0.0f;
}

__global__ void __launch_bounds__(kThreads)
    sign_step_kernel(float* __restrict__ x, float keep, float lr,
                     const float* __restrict__ direction, std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    x[i] = __fsub_rn(__fmul_rn(keep, x[i]), signed_step(direction[i], lr));
  }
}

__global__ void __launch_bounds__(kThreads)
    adamw_kernel(float* __restrict__ x, float* __restrict__ m, float* __restrict__ v,
                 const float* __restrict__ g, AdamwStep s, std::size_t count) {
  const float rest1 = __fsub_rn(1.0f, s.beta1);
  const float rest2 = __fsub_rn(1.0f, s.beta2);
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    const float scaled = __fmul_rn(s.scale, g[i]);
    const float mean = __fadd_rn(__fmul_rn(s.beta1, m[i]), __fmul_rn(rest1, scaled));
    const float square =
        __fadd_rn(__fmul_rn(s.beta2, v[i]), __fmul_rn(rest2, __fmul_rn(scaled, scaled)));
    const float size = __fadd_rn(__fmul_rn(__fsqrt_rn(square), s.v_scale), s.eps);
    const float step = __fdiv_rn(__fmul_rn(s.rate, mean), size);
    m[i] = mean;
    v[i] = square;
    x[i] = __fsub_rn(__fmul_rn(s.keep, x[i]), step);
  }
}

__global__ void __launch_bounds__(kThreads)
    lion_kernel(float* __restrict__ x, float* __restrict__ m, const float* __restrict__ g,
                LionStep s, std::size_t count) {
  const float rest1 = __fsub_rn(1.0f, s.beta1);
  const float rest2 = __fsub_rn(1.0f, s.beta2);
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    const float scaled = __fmul_rn(s.scale, g[i]);
    const float along = __fadd_rn(__fmul_rn(s.beta1, m[i]), __fmul_rn(rest1, scaled));
    m[i] = __fadd_rn(__fmul_rn(s.beta2, m[i]), __fmul_rn(rest2, scaled));
    x[i] = __fsub_rn(__fmul_rn(s.keep, x[i]), signed_step(along, s.lr));
  }
}

__global__ void __launch_bounds__(kThreads)
    add_squares_kernel(float* __restrict__ v, float beta, const float* __restrict__ g,
                       std::size_t count) {
  const float rest = __fsub_rn(1.0f, beta);
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    const float square = __fmul_rn(g[i], g[i]);
    v[i] = __fadd_rn(__fmul_rn(beta, v[i]), __fmul_rn(rest, square));
  }
}

__global__ void __launch_bounds__(kThreads)
    moment_step_kernel(float* __restrict__ x, const float* __restrict__ m,
                       const float* __restrict__ v, MomentStep s, std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    const float size = __fadd_rn(__fsqrt_rn(__fdiv_rn(v[i], s.correction)), s.eps);
    const float move = __fdiv_rn(__fmul_rn(s.rate, m[i]), size);
    x[i] = __fsub_rn(__fmul_rn(s.keep, x[i]), v[i] > 0.0f ? move : 0.0f);
  }
}

__global__ void __launch_bounds__(kThreads) round_to_bf16_kernel(float* x, std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    x[i] = __uint_as_float(from_bf16(to_bf16(__float_as_uint(x[i]))));
  }
}

// Packed values are words, not floats: no instruction may take one for a number.
__global__ void __launch_bounds__(kThreads)
    pack_bf16_kernel(const float* __restrict__ values, std::uint32_t* __restrict__ packed,
                     std::size_t count) {
  for (std::size_t i = first_value(); i < (count + 1) / 2; i += grid_step()) {
    const std::uint32_t low = to_bf16(__float_as_uint(values[2 * i]));
    const bool pair = 2 * i + 1 < count;
    const std::uint32_t high = pair ? to_bf16(__float_as_uint(values[2 * i + 1])) : 0u;
    packed[i] = low | high << 16;
  }
}

__global__ void __launch_bounds__(kThreads)
    unpack_bf16_kernel(const std::uint32_t* __restrict__ packed, float* __restrict__ values,
                       std::size_t count) {
  for (std::size_t i = first_value(); i < count; i += grid_step()) {
    const std::uint32_t pair = packed[i / 2];
    values[i] = __uint_as_float(from_bf16(i % 2 == 0 ? pair & 0xffffu : pair >> 16));
  }
}

template <class... Parameters, class... Arguments>
void run(Floats out, std::size_t count, void (*kernel)(Parameters...), Arguments... arguments) {
  if (count == 0) return;
  device::launch(out.device().index(), kernel, device::shape_for(count, kThreads), arguments...);
}

}  // namespace

namespace twins {

void scale_add(Floats y, float a, ConstFloats x, float b) {
  run(y, y.size(), &scale_add_kernel, y.data(), a, x.data(), b, y.size());
}

void scale(Floats y, float a) { run(y, y.size(), &scale_kernel, y.data(), a, y.size()); }

void divide(Floats y, float a) { run(y, y.size(), &divide_kernel, y.data(), a, y.size()); }

void sign_step(Floats x, float keep, float lr, ConstFloats direction) {
  run(x, x.size(), &sign_step_kernel, x.data(), keep, lr, direction.data(), x.size());
}

void adamw(Floats x, Floats m, Floats v, ConstFloats g, const AdamwStep& step) {
  run(x, x.size(), &adamw_kernel, x.data(), m.data(), v.data(), g.data(), step, x.size());
}

void lion(Floats x, Floats m, ConstFloats g, const LionStep& step) {
  run(x, x.size(), &lion_kernel, x.data(), m.data(), g.data(), step, x.size());
}

void add_squares(Floats v, float beta, ConstFloats g) {
  run(v, v.size(), &add_squares_kernel, v.data(), beta, g.data(), v.size());
}

void moment_step(Floats x, ConstFloats m, ConstFloats v, const MomentStep& step) {
  run(x, x.size(), &moment_step_kernel, x.data(), m.data(), v.data(), step, x.size());
}

void round_to_bf16(Floats x) { run(x, x.size(), &round_to_bf16_kernel, x.data(), x.size()); }

void pack_bf16(ConstFloats values, Floats packed) {
  run(packed, packed.size(), &pack_bf16_kernel, values.data(),
      reinterpret_cast<std::uint32_t*>(packed.data()), values.size());
}

void unpack_bf16(ConstFloats packed, Floats values) {
  run(values, values.size(), &unpack_bf16_kernel,
      reinterpret_cast<const std::uint32_t*>(packed.data()), values.data(), values.size());
}

}  // namespace twins
}  // namespace thinwire::kernels
