// The Walsh-Hadamard transform down the columns of a tile, once per SIMD target (see
// combine-inl.h for the guard). Private to a site: the inverse, which is replicated, is a product.
#if defined(THINWIRE_KERNELS_HADAMARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_HADAMARD_INL_H
#undef THINWIRE_KERNELS_HADAMARD_INL_H
#else
#define THINWIRE_KERNELS_HADAMARD_INL_H
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstring>

#include "src/kernels/basis.h"
#include "src/kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

// to = (a + b, a - b) * factor for rows `stride` apart; `to` may be `from`.
HWY_INLINE void hadamard_2(std::size_t i, std::size_t stride, float factor, std::size_t columns,
                           Rows from, Rows to) {
  const Lanes<float> d;
  const auto norm = hn::Set(d, factor);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto x0 = hn::Mul(norm, hn::LoadU(d, from.row(i) + c));
    const auto x1 = hn::Mul(norm, hn::LoadU(d, from.row(i + stride) + c));
    hn::StoreU(hn::Add(x0, x1), d, to.row(i) + c);
    hn::StoreU(hn::Sub(x0, x1), d, to.row(i + stride) + c);
  }
}

// Two such levels at once, of rows `stride` and 2 * stride apart.
HWY_INLINE void hadamard_4(std::size_t i, std::size_t stride, float factor, std::size_t columns,
                           Rows from, Rows to) {
  const Lanes<float> d;
  const auto norm = hn::Set(d, factor);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto x0 = hn::Mul(norm, hn::LoadU(d, from.row(i) + c));
    const auto x1 = hn::Mul(norm, hn::LoadU(d, from.row(i + stride) + c));
    const auto x2 = hn::Mul(norm, hn::LoadU(d, from.row(i + 2 * stride) + c));
    const auto x3 = hn::Mul(norm, hn::LoadU(d, from.row(i + 3 * stride) + c));
    const auto sum01 = hn::Add(x0, x1), difference01 = hn::Sub(x0, x1);
    const auto sum23 = hn::Add(x2, x3), difference23 = hn::Sub(x2, x3);
    hn::StoreU(hn::Add(sum01, sum23), d, to.row(i) + c);
    hn::StoreU(hn::Add(difference01, difference23), d, to.row(i + stride) + c);
    hn::StoreU(hn::Sub(sum01, sum23), d, to.row(i + 2 * stride) + c);
    hn::StoreU(hn::Sub(difference01, difference23), d, to.row(i + 3 * stride) + c);
  }
}

// out = H / sqrt(length) times the rows of x: additions alone, n log n of them. The first pass
// scales and goes from x to out.
void hadamard_columns(const Side& side, std::size_t columns, Rows x, Rows out) {
  const std::size_t length = side.length;
  std::size_t stride = 1;
  float factor = side.rows[0];
  if (length == 1) std::memcpy(out.first, x.first, columns * sizeof(float));
  if (std::countr_zero(length) % 2 == 1) {
    for (std::size_t i = 0; i < length; i += 2) hadamard_2(i, 1, factor, columns, x, out);
    stride = 2;
    factor = 1.0f;
    x = out;
  }
  for (; stride < length; stride *= 4, factor = 1.0f, x = out) {
    for (std::size_t block = 0; block < length; block += 4 * stride) {
      for (std::size_t i = block; i < block + stride; ++i) {
        hadamard_4(i, stride, factor, columns, x, out);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
