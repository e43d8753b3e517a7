// The transposition of rows of floats, once per SIMD target (see combine-inl.h for the guard).
#if defined(THINWIRE_KERNELS_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_TRANSPOSE_INL_H
#undef THINWIRE_KERNELS_TRANSPOSE_INL_H
#else
#define THINWIRE_KERNELS_TRANSPOSE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "src/kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose(std::size_t rows, std::size_t columns, Rows in, Rows out) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out.row(j)[i] = in.row(i)[j];
  }
}
#else
// out[j][i] = in[i][j] in blocks of 4 x 4: sides are rounded up to 4.
HWY_INLINE void transpose(std::size_t rows, std::size_t columns, Rows in, Rows out) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  for (std::size_t i = 0; i < rows; i += 4) {
    for (std::size_t j = 0; j < columns; j += 4) {
      const float* HWY_RESTRICT from = in.row(i) + j;
      float* HWY_RESTRICT to = out.row(j) + i;
      const auto a = hn::LoadU(d, from);
      const auto b = hn::LoadU(d, from + in.step);
      const auto c = hn::LoadU(d, from + 2 * in.step);
      const auto e = hn::LoadU(d, from + 3 * in.step);
      const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + out.step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d,
                 to + 2 * out.step);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d,
                 to + 3 * out.step);
    }
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
