// The forward transform: both sides by the same vertical pass (columns in vector lanes), with a
// transposition after each. Private to a site, hence with fused multiply-add where there is one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/dct.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "src/kernels/basis.h"
#include "src/kernels/combine-inl.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

// x[j] becomes x[j] + x[length-1-j], and its mirror the difference.
HWY_INLINE void butterfly(std::size_t length, std::size_t columns, float* x) {
  const Lanes<float> d;
  for (std::size_t j = 0; j < length / 2; ++j) {
    float* HWY_RESTRICT low = x + j * kSideMax;
    float* HWY_RESTRICT high = x + (length - 1 - j) * kSideMax;
    for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
      const auto a = hn::LoadU(d, low + c);
      const auto b = hn::LoadU(d, high + c);
      hn::StoreU(hn::Add(a, b), d, low + c);
      hn::StoreU(hn::Sub(a, b), d, high + c);
    }
  }
}

// out = B x for `columns` columns; see forward_factors for the halvings. Destroys x.
HWY_INLINE void transform_columns(const Basis& basis, std::size_t columns, float* x, float* out) {
  const float* factors = basis.forward.data();
  std::size_t step = 1;
  std::size_t length = basis.length;
  for (; length % 2 == 0; length /= 2, step *= 2) {
    const std::size_t half = length / 2;
    butterfly(length, columns, x);
    combine<Fused>(Combination<float>{.count = half,
                                      .factors = factors,
                                      .factors_step = half,
                                      .terms = x + (length - 1) * kSideMax,
                                      .terms_step = -static_cast<std::ptrdiff_t>(kSideMax),
                                      .outputs = half,
                                      .sums = out + step * kSideMax,
                                      .sums_step = 2 * step * kSideMax,
                                      .columns = columns});
    factors += half * half;
  }
  combine<Fused>(Combination<float>{.count = length,
                                    .factors = factors,
                                    .factors_step = length,
                                    .terms = x,
                                    .terms_step = kSideMax,
                                    .outputs = length,
                                    .sums = out,
                                    .sums_step = step * kSideMax,
                                    .columns = columns});
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose(std::size_t rows, std::size_t columns, const float* in, float* out) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j * kSideMax + i] = in[i * kSideMax + j];
  }
}
#else
// out[j][i] = in[i][j] in blocks of 4 x 4: sides are rounded up to 4.
HWY_INLINE void transpose(std::size_t rows, std::size_t columns, const float* HWY_RESTRICT in,
                          float* HWY_RESTRICT out) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  for (std::size_t i = 0; i < rows; i += 4) {
    for (std::size_t j = 0; j < columns; j += 4) {
      const float* from = in + i * kSideMax + j;
      float* to = out + j * kSideMax + i;
      const auto a = hn::LoadU(d, from);
      const auto b = hn::LoadU(d, from + kSideMax);
      const auto c = hn::LoadU(d, from + 2 * kSideMax);
      const auto e = hn::LoadU(d, from + 3 * kSideMax);
      const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + kSideMax);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d,
                 to + 2 * kSideMax);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d,
                 to + 3 * kSideMax);
    }
  }
}

#endif

// tile holds height x width values and is replaced by their coefficients; both buffers are
// kSideMax x kSideMax and hold finite floats everywhere.
void Transform(const Basis& down, const Basis& across, float* HWY_RESTRICT tile,
               float* HWY_RESTRICT spare) {
  transform_columns(down, across.length, tile, spare);
  transpose(down.length, across.length, spare, tile);
  transform_columns(across, down.length, tile, spare);
  transpose(across.length, down.length, spare, tile);
}

// y = decay * y + scale * x for the rows of one tile.
void AddRows(std::size_t height, std::size_t width, const float* HWY_RESTRICT x, float decay,
             float scale, float* HWY_RESTRICT y) {
  const hn::ScalableTag<float> d;
  const auto keep = hn::Set(d, decay);
  const auto factor = hn::Set(d, scale);
  for (std::size_t i = 0; i < height; ++i, x += kSideMax, y += width) {
    std::size_t j = 0;
    for (; j + hn::Lanes(d) <= width; j += hn::Lanes(d)) {
      const auto sum = hn::MulAdd(factor, hn::LoadU(d, x + j), hn::Mul(keep, hn::LoadU(d, y + j)));
      hn::StoreU(sum, d, y + j);
    }
    for (; j < width; ++j) y[j] = decay * y[j] + scale * x[j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernels {
namespace {

HWY_EXPORT(Transform);
HWY_EXPORT(AddRows);

constexpr std::size_t kArea = kSideMax * kSideMax;

// Two scratch tiles. Left as they are for a full tile, which overwrites them; cleared otherwise, so
// that what lies beside a smaller tile is finite.
struct Scratch {
  Scratch(std::size_t height, std::size_t width) {
    if (height == kSideMax && width == kSideMax) return;
    std::memset(tile, 0, sizeof(tile));
    std::memset(spare, 0, sizeof(spare));
  }
  alignas(64) float tile[kArea];
  alignas(64) float spare[kArea];
};

void copy_row(const float* from, std::size_t count, std::size_t width, float* to) {
  std::memcpy(to, from, count * sizeof(float));
  std::memset(to + count, 0, (width - count) * sizeof(float));
}

// The tile's valid values, then zeros.
void load(const Tile& tile, ConstFloats values, float* to) {
  const std::size_t used_rows = tile.rows + (tile.tail > 0 ? 1 : 0);
  TW_CHECK(used_rows <= tile.height && tile.cols <= tile.width && tile.tail <= tile.cols);
  const float* from = values.data() + tile.offset;
  for (std::size_t i = 0; i < tile.rows; ++i) {
    copy_row(from + i * tile.stride, tile.cols, tile.width, to + i * kSideMax);
  }
  if (tile.tail > 0) {
    copy_row(from + tile.rows * tile.stride, tile.tail, tile.width, to + tile.rows * kSideMax);
  }
  for (std::size_t i = used_rows; i < tile.height; ++i)
    copy_row(from, 0, tile.width, to + i * kSideMax);
}

}  // namespace

void dct(std::size_t height, std::size_t width, ConstFloats in, Floats out) {
  TW_CHECK(in.size() == height * width && out.size() == height * width);
  const Basis& down = basis(height);
  const Basis& across = basis(width);
  Scratch scratch(height, width);
  for (std::size_t i = 0; i < height; ++i) {
    copy_row(in.data() + i * width, width, width, scratch.tile + i * kSideMax);
  }
  HWY_DYNAMIC_DISPATCH(Transform)(down, across, scratch.tile, scratch.spare);
  for (std::size_t i = 0; i < height; ++i) {
    copy_row(scratch.tile + i * kSideMax, width, width, out.data() + i * width);
  }
}

void fold(const Tile& tile, ConstFloats values, float decay, float scale, Floats residual) {
  TW_CHECK(residual.size() == tile.height * tile.width);
  const Basis& down = basis(tile.height);
  const Basis& across = basis(tile.width);
  Scratch scratch(tile.height, tile.width);
  load(tile, values, scratch.tile);
  HWY_DYNAMIC_DISPATCH(Transform)(down, across, scratch.tile, scratch.spare);
  HWY_DYNAMIC_DISPATCH(AddRows)
  (tile.height, tile.width, scratch.tile, decay, scale, residual.data());
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
