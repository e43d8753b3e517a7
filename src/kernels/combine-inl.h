// The inner loop of all tile transforms, once per SIMD target (Highway's scheme: this header is
// read again for every target, hence the odd guard).
#if defined(THINWIRE_KERNELS_COMBINE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_COMBINE_INL_H
#undef THINWIRE_KERNELS_COMBINE_INL_H
#else
#define THINWIRE_KERNELS_COMBINE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "src/kernels/basis.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Scratch rows are kSideMax apart; loops over columns may touch, but never use, the rest of a row.
// At most half a row is done at once, hence the cap on the vectors.
template <typename T>
using Lanes = hn::CappedTag<T, kSideMax / 4>;

// Rows of `columns` floats, `step` apart; step may be negative.
struct Rows {
  float* first;
  std::ptrdiff_t step;

  float* row(std::size_t i) const { return first + static_cast<std::ptrdiff_t>(i) * step; }
  Rows from(std::size_t i, std::ptrdiff_t stride) const { return {row(i), stride * step}; }
};

// sums[o][c] = sum over t, ascending, of factors[t][o] * terms[t][c].
template <typename T>
struct Combination {
  std::size_t count = 0;       // number of terms t
  const T* factors = nullptr;  // of term t at factors + t * factors_step, output o at [o]
  std::size_t factors_step = 0;
  const T* terms = nullptr;  // row of term t at terms + t * terms_step
  std::ptrdiff_t terms_step = 0;
  std::size_t outputs = 0;
  T* sums = nullptr;  // row of output o at sums + o * sums_step
  std::ptrdiff_t sums_step = 0;
  std::size_t columns = 0;
};

// Plain: product and sum are rounded one by one, as [replicated] results need; Fused: once.
struct Plain {
  template <class V>
  HWY_INLINE V operator()(V factor, V term, V sum) const {
    return hn::Add(sum, hn::Mul(factor, term));
  }
};
struct Fused {
  template <class V>
  HWY_INLINE V operator()(V factor, V term, V sum) const {
    return hn::MulAdd(factor, term, sum);
  }
};

// kOutputs = 4 rows x two vectors of columns: eight sums live in registers.
template <class MultiplyAdd, typename T>
HWY_INLINE void combine_four(const Combination<T>& c, std::size_t output, std::size_t column) {
  const Lanes<T> d;
  const MultiplyAdd multiply_add;
  const std::size_t n = hn::Lanes(d);
  auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  const T* HWY_RESTRICT factors = c.factors + output;
  const T* HWY_RESTRICT terms = c.terms + column;
  for (std::size_t t = 0; t < c.count; ++t, factors += c.factors_step, terms += c.terms_step) {
    const auto x0 = hn::LoadU(d, terms);
    const auto x1 = hn::LoadU(d, terms + n);
    const auto fa = hn::Set(d, factors[0]);
    a0 = multiply_add(fa, x0, a0);
    a1 = multiply_add(fa, x1, a1);
    const auto fb = hn::Set(d, factors[1]);
    b0 = multiply_add(fb, x0, b0);
    b1 = multiply_add(fb, x1, b1);
    const auto fc = hn::Set(d, factors[2]);
    c0 = multiply_add(fc, x0, c0);
    c1 = multiply_add(fc, x1, c1);
    const auto fd = hn::Set(d, factors[3]);
    d0 = multiply_add(fd, x0, d0);
    d1 = multiply_add(fd, x1, d1);
  }
  T* HWY_RESTRICT sums = c.sums + static_cast<std::ptrdiff_t>(output) * c.sums_step + column;
  hn::StoreU(a0, d, sums);
  hn::StoreU(a1, d, sums + n);
  hn::StoreU(b0, d, sums + c.sums_step);
  hn::StoreU(b1, d, sums + c.sums_step + n);
  hn::StoreU(c0, d, sums + 2 * c.sums_step);
  hn::StoreU(c1, d, sums + 2 * c.sums_step + n);
  hn::StoreU(d0, d, sums + 3 * c.sums_step);
  hn::StoreU(d1, d, sums + 3 * c.sums_step + n);
}

template <class MultiplyAdd, typename T>
HWY_INLINE void combine_one(const Combination<T>& c, std::size_t output, std::size_t column) {
  const Lanes<T> d;
  const MultiplyAdd multiply_add;
  const std::size_t n = hn::Lanes(d);
  auto a0 = hn::Zero(d), a1 = a0;
  const T* HWY_RESTRICT factors = c.factors + output;
  const T* HWY_RESTRICT terms = c.terms + column;
  for (std::size_t t = 0; t < c.count; ++t, factors += c.factors_step, terms += c.terms_step) {
    const auto factor = hn::Set(d, *factors);
    a0 = multiply_add(factor, hn::LoadU(d, terms), a0);
    a1 = multiply_add(factor, hn::LoadU(d, terms + n), a1);
  }
  T* HWY_RESTRICT sums = c.sums + static_cast<std::ptrdiff_t>(output) * c.sums_step + column;
  hn::StoreU(a0, d, sums);
  hn::StoreU(a1, d, sums + n);
}

template <class MultiplyAdd, typename T>
HWY_INLINE void combine(const Combination<T>& c) {
  const std::size_t step = 2 * hn::Lanes(Lanes<T>());
  for (std::size_t column = 0; column < c.columns; column += step) {
    std::size_t output = 0;
    for (; output + 4 <= c.outputs; output += 4) combine_four<MultiplyAdd>(c, output, column);
    for (; output < c.outputs; ++output) combine_one<MultiplyAdd>(c, output, column);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
