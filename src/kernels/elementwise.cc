// Passes over flat arrays. One body serves whole vectors and, with vectors of one lane, the rest.
// Nothing here is fused, whatever the target: all of it is [replicated].
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "src/kernels/dispatch.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Body>
HWY_INLINE void for_each(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) body(d, i);
  for (; i < count; ++i) body(one, i);
}

struct ScaleAddBody {
  float* HWY_RESTRICT y;
  float a;
  const float* x;
  float b;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto old = hn::Mul(hn::Set(d, a), hn::LoadU(d, y + i));
    hn::StoreU(hn::Add(old, hn::Mul(hn::Set(d, b), hn::LoadU(d, x + i))), d, y + i);
  }
};

struct ScaleBody {
  float* y;
  float a;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(hn::Mul(hn::Set(d, a), hn::LoadU(d, y + i)), d, y + i);
  }
};

// sign(direction) * lr
template <class D>
HWY_INLINE hn::Vec<D> SignedStep(D d, hn::Vec<D> direction, float lr) {
  const auto zero = hn::Zero(d);
  const auto up = hn::IfThenElseZero(hn::Gt(direction, zero), hn::Set(d, lr));
  return hn::IfThenElse(hn::Lt(direction, zero), hn::Set(d, -lr), up);
}

struct DivideBody {
  float* y;
  float a;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    hn::StoreU(hn::Div(hn::LoadU(d, y + i), hn::Set(d, a)), d, y + i);
  }
};

struct SignStepBody {
  float* x;
  float keep;
  float lr;
  const float* direction;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto step = SignedStep(d, hn::LoadU(d, direction + i), lr);
    hn::StoreU(hn::Sub(hn::Mul(hn::Set(d, keep), hn::LoadU(d, x + i)), step), d, x + i);
  }
};

struct LionBody {
  float* x;
  float* m;
  const float* g;
  LionStep s;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto scaled = hn::Mul(hn::Set(d, s.scale), hn::LoadU(d, g + i));
    const auto old = hn::LoadU(d, m + i);
    const auto along =
        hn::Add(hn::Mul(hn::Set(d, s.beta1), old), hn::Mul(hn::Set(d, 1.0f - s.beta1), scaled));
    const auto mean =
        hn::Add(hn::Mul(hn::Set(d, s.beta2), old), hn::Mul(hn::Set(d, 1.0f - s.beta2), scaled));
    const auto kept = hn::Mul(hn::Set(d, s.keep), hn::LoadU(d, x + i));
    hn::StoreU(mean, d, m + i);
    hn::StoreU(hn::Sub(kept, SignedStep(d, along, s.lr)), d, x + i);
  }
};

struct AdamwBody {
  float* x;
  float* m;
  float* v;
  const float* g;
  AdamwStep s;

  template <class D>
  HWY_INLINE void operator()(D d, std::size_t i) const {
    const auto scaled = hn::Mul(hn::Set(d, s.scale), hn::LoadU(d, g + i));
    const auto mean = hn::Add(hn::Mul(hn::Set(d, s.beta1), hn::LoadU(d, m + i)),
                              hn::Mul(hn::Set(d, 1.0f - s.beta1), scaled));
    const auto square = hn::Add(hn::Mul(hn::Set(d, s.beta2), hn::LoadU(d, v + i)),
                                hn::Mul(hn::Set(d, 1.0f - s.beta2), hn::Mul(scaled, scaled)));
    const auto size = hn::Add(hn::Mul(hn::Sqrt(square), hn::Set(d, s.v_scale)), hn::Set(d, s.eps));
    const auto step = hn::Div(hn::Mul(hn::Set(d, s.rate), mean), size);
    hn::StoreU(mean, d, m + i);
    hn::StoreU(square, d, v + i);
    hn::StoreU(hn::Sub(hn::Mul(hn::Set(d, s.keep), hn::LoadU(d, x + i)), step), d, x + i);
  }
};

void ScaleAdd(std::size_t count, float* y, float a, const float* x, float b) {
  for_each(count, ScaleAddBody{y, a, x, b});
}

void Scale(std::size_t count, float* y, float a) { for_each(count, ScaleBody{y, a}); }

void Divide(std::size_t count, float* y, float a) { for_each(count, DivideBody{y, a}); }

void SignStep(std::size_t count, float* x, float keep, float lr, const float* direction) {
  for_each(count, SignStepBody{x, keep, lr, direction});
}

void Adamw(std::size_t count, float* x, float* m, float* v, const float* g, const AdamwStep& step) {
  for_each(count, AdamwBody{x, m, v, g, step});
}

void Lion(std::size_t count, float* x, float* m, const float* g, const LionStep& step) {
  for_each(count, LionBody{x, m, g, step});
}

// Adds the squares of whole groups of 8 to the 8 sums, element i to sum i mod 8. A product of two
// floats is exact in double.
void AddSquares(const float* HWY_RESTRICT x, std::size_t count, double* HWY_RESTRICT sums) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> floats;
  for (std::size_t part = 0; part < 8; part += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, sums + part);
    for (std::size_t i = part; i < count; i += 8) {
      const auto wide = hn::PromoteTo(d, hn::LoadU(floats, x + i));
      sum = hn::Add(sum, hn::Mul(wide, wide));
    }
    hn::StoreU(sum, d, sums + part);
  }
}

// Largest bits of |x|: at least those of infinity when any value is not finite.
std::int32_t LargestBits(const float* x, std::size_t count) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToSigned<decltype(floats)> d;
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::BitCast(d, hn::Abs(hn::LoadU(floats, x + i))));
  }
  std::int32_t result = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) {
    result = std::max(result, std::bit_cast<std::int32_t>(x[i]) & 0x7fffffff);
  }
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernels {

HWY_EXPORT(ScaleAdd);
HWY_EXPORT(Scale);
HWY_EXPORT(Divide);
HWY_EXPORT(SignStep);
HWY_EXPORT(Adamw);
HWY_EXPORT(Lion);
HWY_EXPORT(AddSquares);
HWY_EXPORT(LargestBits);

// Squares are summed in blocks that stay in cache while each vector of sums passes over them.
constexpr std::size_t kBlock = 4096;

void scale_add(Floats y, float a, ConstFloats x, float b) {
  TW_CHECK(x.size() == y.size());
  if (const DeviceKernels* twins = twins_for(y, x)) return twins->scale_add(y, a, x, b);
  HWY_DYNAMIC_DISPATCH(ScaleAdd)(y.size(), y.data(), a, x.data(), b);
}

void scale(Floats y, float a) {
  if (const DeviceKernels* twins = twins_for(y)) return twins->scale(y, a);
  HWY_DYNAMIC_DISPATCH(Scale)(y.size(), y.data(), a);
}

void divide(Floats y, float a) {
  if (const auto* twins = twins_for(y)) return twins->divide(y, a);
  HWY_DYNAMIC_DISPATCH(Divide)(y.size(), y.data(), a);
}

double sum_squares(ConstFloats x) {
  if (const DeviceKernels* twins = twins_for(x)) {
    const ShardRange all{.offset = 0, .size = x.size()};
    double sum = 0.0;
    twins->sum_squares(x, {&all, 1}, {&sum, 1});
    return sum;
  }
  double sums[8] = {};
  const std::size_t whole = x.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += kBlock) {
    HWY_DYNAMIC_DISPATCH(AddSquares)(x.data() + i, std::min(kBlock, whole - i), sums);
  }
  for (std::size_t i = whole; i < x.size(); ++i) {
    const double wide = x[i];
    sums[i - whole] += wide * wide;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

bool all_finite(ConstFloats x) {
  if (const DeviceKernels* twins = twins_for(x)) return twins->all_finite(x);
  constexpr std::int32_t kInfinity = 0x7f800000;
  for (std::size_t i = 0; i < x.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, x.size() - i);
    if (HWY_DYNAMIC_DISPATCH(LargestBits)(x.data() + i, count) >= kInfinity) return false;
  }
  return true;
}

void sign_step(Floats x, float keep, float lr, ConstFloats direction) {
  TW_CHECK(x.size() == direction.size());
  if (const DeviceKernels* twins = twins_for(x, direction)) {
    return twins->sign_step(x, keep, lr, direction);
  }
  HWY_DYNAMIC_DISPATCH(SignStep)(x.size(), x.data(), keep, lr, direction.data());
}

void adamw(Floats x, Floats m, Floats v, ConstFloats g, const AdamwStep& step) {
  TW_CHECK(x.size() == m.size() && x.size() == v.size() && x.size() == g.size());
  if (const DeviceKernels* twins = twins_for(x, m, v, g)) return twins->adamw(x, m, v, g, step);
  HWY_DYNAMIC_DISPATCH(Adamw)
  (x.size(), x.data(), m.data(), v.data(), g.data(), step);
}

void lion(Floats x, Floats m, ConstFloats g, const LionStep& step) {
  TW_CHECK(x.size() == m.size() && x.size() == g.size());
  if (const DeviceKernels* twins = twins_for(x, m, g)) return twins->lion(x, m, g, step);
  HWY_DYNAMIC_DISPATCH(Lion)(x.size(), x.data(), m.data(), g.data(), step);
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
