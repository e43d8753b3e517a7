// The inner loop of matrix products, once per SIMD target (see combine-inl.h for the guard).
// [replicated]: products and sums are rounded one by one, terms ascending.
#if defined(THINWIRE_KERNELS_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_PRODUCT_INL_H
#undef THINWIRE_KERNELS_PRODUCT_INL_H
#else
#define THINWIRE_KERNELS_PRODUCT_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "src/kernels/combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kPanelWidth = 32;

#if HWY_TARGET <= HWY_AVX3
// 8 rows of the tile, two vectors each: 16 sums live in registers, of which there are 32. One
// passage over `right` serves twice as many sums as in combine_four.
HWY_INLINE void multiply_eight(std::size_t terms, const float* HWY_RESTRICT left,
                               const float* HWY_RESTRICT right, float* HWY_RESTRICT tile) {
  const hn::FixedTag<float, 16> w;
  const Plain plain;
  auto a0 = hn::Zero(w), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  auto e0 = a0, e1 = a0, f0 = a0, f1 = a0, g0 = a0, g1 = a0, h0 = a0, h1 = a0;
  for (std::size_t k = 0; k < terms; ++k, left += kPanelWidth, right += kPanelWidth) {
    const auto x0 = hn::LoadU(w, right);
    const auto x1 = hn::LoadU(w, right + 16);
    const auto a = hn::Set(w, left[0]);
    a0 = plain(a, x0, a0);
    a1 = plain(a, x1, a1);
    const auto b = hn::Set(w, left[1]);
    b0 = plain(b, x0, b0);
    b1 = plain(b, x1, b1);
    const auto c = hn::Set(w, left[2]);
    c0 = plain(c, x0, c0);
    c1 = plain(c, x1, c1);
    const auto d = hn::Set(w, left[3]);
    d0 = plain(d, x0, d0);
    d1 = plain(d, x1, d1);
    const auto e = hn::Set(w, left[4]);
    e0 = plain(e, x0, e0);
    e1 = plain(e, x1, e1);
    const auto f = hn::Set(w, left[5]);
    f0 = plain(f, x0, f0);
    f1 = plain(f, x1, f1);
    const auto g = hn::Set(w, left[6]);
    g0 = plain(g, x0, g0);
    g1 = plain(g, x1, g1);
    const auto h = hn::Set(w, left[7]);
    h0 = plain(h, x0, h0);
    h1 = plain(h, x1, h1);
  }
  hn::StoreU(a0, w, tile + 0 * kPanelWidth);
  hn::StoreU(a1, w, tile + 0 * kPanelWidth + 16);
  hn::StoreU(b0, w, tile + 1 * kPanelWidth);
  hn::StoreU(b1, w, tile + 1 * kPanelWidth + 16);
  hn::StoreU(c0, w, tile + 2 * kPanelWidth);
  hn::StoreU(c1, w, tile + 2 * kPanelWidth + 16);
  hn::StoreU(d0, w, tile + 3 * kPanelWidth);
  hn::StoreU(d1, w, tile + 3 * kPanelWidth + 16);
  hn::StoreU(e0, w, tile + 4 * kPanelWidth);
  hn::StoreU(e1, w, tile + 4 * kPanelWidth + 16);
  hn::StoreU(f0, w, tile + 5 * kPanelWidth);
  hn::StoreU(f1, w, tile + 5 * kPanelWidth + 16);
  hn::StoreU(g0, w, tile + 6 * kPanelWidth);
  hn::StoreU(g1, w, tile + 6 * kPanelWidth + 16);
  hn::StoreU(h0, w, tile + 7 * kPanelWidth);
  hn::StoreU(h1, w, tile + 7 * kPanelWidth + 16);
}
#endif

// tile[i][j] = sum over k, ascending, of left[k][i] * right[k][j]: a tile of 32 x 32 from two
// panels of `terms` rows of 32.
HWY_INLINE void multiply(std::size_t terms, const float* left, const float* right, float* tile) {
#if HWY_TARGET <= HWY_AVX3
  for (std::size_t i = 0; i < kPanelWidth; i += 8) {
    multiply_eight(terms, left + i, right, tile + i * kPanelWidth);
  }
#else
  combine<Plain>(Combination<float>{.count = terms,
                                    .factors = left,
                                    .factors_step = kPanelWidth,
                                    .terms = right,
                                    .terms_step = kPanelWidth,
                                    .outputs = kPanelWidth,
                                    .sums = tile,
                                    .sums_step = kPanelWidth,
                                    .columns = kPanelWidth});
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
