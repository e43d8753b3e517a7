// The fast DCT down the columns of a tile and its transpose, once per SIMD target (see
// combine-inl.h for the guard). Private to a site, hence with fused multiply-add where there is
// one.
#if defined(THINWIRE_KERNELS_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_COLUMNS_INL_H
#undef THINWIRE_KERNELS_COLUMNS_INL_H
#else
#define THINWIRE_KERNELS_COLUMNS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "src/kernels/basis.h"
#include "src/kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

// low, high = low + high, low - high
HWY_INLINE void sum_and_difference(std::size_t columns, float* HWY_RESTRICT low,
                                   float* HWY_RESTRICT high) {
  const Lanes<float> d;
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, low + c);
    const auto b = hn::LoadU(d, high + c);
    hn::StoreU(hn::Add(a, b), d, low + c);
    hn::StoreU(hn::Sub(a, b), d, high + c);
  }
}

// a, b of odd_half from d[j] at `low` and d[M-1-j] at `high`: a replaces the latter, b the former.
HWY_INLINE void rotate(float cosine, float sine, float sign, std::size_t columns,
                       float* HWY_RESTRICT low, float* HWY_RESTRICT high) {
  const Lanes<float> d;
  const auto cosines = hn::Set(d, cosine);
  const auto sines = hn::Set(d, sine);
  const auto signed_cosines = hn::Set(d, sign * cosine);
  const auto signed_sines = hn::Set(d, sign * sine);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, low + c);
    const auto y = hn::LoadU(d, high + c);
    hn::StoreU(hn::MulAdd(cosines, x, hn::Mul(sines, y)), d, high + c);
    hn::StoreU(hn::MulSub(signed_cosines, y, hn::Mul(signed_sines, x)), d, low + c);
  }
}

HWY_INLINE void product(std::size_t inputs, const float*& factors, std::size_t columns, Rows x,
                        Rows out) {
  combine<Fused>(Combination<float>{.count = inputs,
                                    .factors = factors,
                                    .factors_step = inputs,
                                    .terms = x.first,
                                    .terms_step = x.step,
                                    .outputs = inputs,
                                    .sums = out.first,
                                    .sums_step = out.step,
                                    .columns = columns});
  factors += inputs * inputs;
}

void transform_columns(std::size_t length, const float*& factors, std::size_t columns, Rows x,
                       Rows out);

// The odd coefficients y[u], at rows 2u + 1 of out, of d[j] = difference j, at row length - 1 - j
// of x. With M = length / 2 and t[j] = pi (2j+1) / 4M, the angles of y[2k] and y[2k-1] are pi
// (2j+1) k / M plus and minus t[j], and d[j] and d[M-1-j] meet the same cosines. Hence, over j < M
// / 2,
//   a[j] = cos t[j] d[j] + sin t[j] d[M-1-j],   b[j] = (-1)^j (cos t[j] d[M-1-j] - sin t[j] d[j]),
//   P = DCT a,   Q[k] = (DCT b)[M/2 - k],   y[2k] = P[k] + Q[k],   y[2k-1] = P[k] - Q[k],
// y[0] = P[0], and y[M-1] = -Q[M/2], whose minus is in the factors.
void odd_half(std::size_t length, const float*& factors, std::size_t columns, Rows x, Rows out) {
  const std::size_t quarter = length / 4;
  float sign = 1.0f;
  for (std::size_t j = 0; j < quarter; ++j, factors += 2, sign = -sign) {
    rotate(factors[0], factors[1], sign, columns, x.row(length - 1 - j), x.row(length / 2 + j));
  }
  transform_columns(quarter, factors, columns, x.from(length / 2, 1), out.from(1, 4));
  transform_columns(quarter, factors, columns, x.from(length - 1, -1), out.from(length - 1, -4));
  for (std::size_t k = 1; k < quarter; ++k) {
    sum_and_difference(columns, out.row(4 * k + 1), out.row(4 * k - 1));
  }
}

// out = DCT of the `length` rows of x, which it destroys; norms are in the factors.
void transform_columns(std::size_t length, const float*& factors, std::size_t columns, Rows x,
                       Rows out) {
  if (is_dense(length)) return product(length, factors, columns, x, out);
  const std::size_t half = length / 2;
  for (std::size_t j = 0; j < half; ++j) {
    sum_and_difference(columns, x.row(j), x.row(length - 1 - j));
  }
  if (splits(length)) {
    odd_half(length, factors, columns, x, out);
  } else {
    product(half, factors, columns, x.from(length - 1, -1), out.from(1, 2));
  }
  transform_columns(half, factors, columns, x, out.from(0, 2));
}

// What follows undoes the above: it is its transpose, the same steps back to front. Factors of
// products are turned (Side::backward), those of rotations are not.

// rotate's transpose: from a at `high` and b at `low` back to d[j] at `low` and d[M-1-j] at `high`.
HWY_INLINE void rotate_back(float cosine, float sine, float sign, std::size_t columns,
                            float* HWY_RESTRICT low, float* HWY_RESTRICT high) {
  const Lanes<float> d;
  const auto cosines = hn::Set(d, cosine);
  const auto sines = hn::Set(d, sine);
  const auto signed_cosines = hn::Set(d, sign * cosine);
  const auto signed_sines = hn::Set(d, sign * sine);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, high + c);
    const auto b = hn::LoadU(d, low + c);
    hn::StoreU(hn::MulSub(cosines, a, hn::Mul(signed_sines, b)), d, low + c);
    hn::StoreU(hn::MulAdd(sines, a, hn::Mul(signed_cosines, b)), d, high + c);
  }
}

void restore_columns(std::size_t length, const float*& factors, std::size_t columns, Rows y,
                     Rows out);

// odd_half's transpose.
void restore_odd_half(std::size_t length, const float*& factors, std::size_t columns, Rows y,
                      Rows out) {
  const std::size_t quarter = length / 4;
  for (std::size_t k = 1; k < quarter; ++k) {
    sum_and_difference(columns, y.row(4 * k + 1), y.row(4 * k - 1));
  }
  const float* angles = factors;
  factors += 2 * quarter;
  restore_columns(quarter, factors, columns, y.from(1, 4), out.from(length / 2, 1));
  restore_columns(quarter, factors, columns, y.from(length - 1, -4), out.from(length - 1, -1));
  float sign = 1.0f;
  for (std::size_t j = 0; j < quarter; ++j, angles += 2, sign = -sign) {
    rotate_back(angles[0], angles[1], sign, columns, out.row(length - 1 - j),
                out.row(length / 2 + j));
  }
}

// out = the rows whose DCT the `length` rows of y are; destroys y.
void restore_columns(std::size_t length, const float*& factors, std::size_t columns, Rows y,
                     Rows out) {
  if (is_dense(length)) return product(length, factors, columns, y, out);
  const std::size_t half = length / 2;
  if (splits(length)) {
    restore_odd_half(length, factors, columns, y, out);
  } else {
    product(half, factors, columns, y.from(1, 2), out.from(length - 1, -1));
  }
  restore_columns(half, factors, columns, y.from(0, 2), out);
  for (std::size_t j = 0; j < half; ++j) {
    sum_and_difference(columns, out.row(j), out.row(length - 1 - j));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
