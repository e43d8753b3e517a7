// The forward transforms: both sides by the same vertical pass (columns in vector lanes), with a
// transposition after each. Private to a site, hence with fused multiply-add where there is one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/dct.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "src/kernels/basis.h"
#include "src/kernels/combine-inl.h"
#include "src/kernels/extent.h"
#include "src/kernels/hadamard-inl.h"
#include "src/kernels/transpose-inl.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

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

HWY_INLINE void transform_side(const Side& side, std::size_t columns, Rows x, Rows out) {
  if (side.basis == Basis::hadamard) return hadamard_columns(side, columns, x, out);
  const float* factors = side.forward.data();
  transform_columns(side.length, factors, columns, x, out);
}

// tile holds height x width values and is replaced by their coefficients; both buffers are
// kSideMax x kSideMax and hold finite floats everywhere.
void Transform(const Side& down, const Side& across, float* HWY_RESTRICT tile,
               float* HWY_RESTRICT spare) {
  transform_side(down, across.length, {tile, kSideMax}, {spare, kSideMax});
  transpose(down.length, across.length, {spare, kSideMax}, {tile, kSideMax});
  transform_side(across, down.length, {tile, kSideMax}, {spare, kSideMax});
  transpose(across.length, down.length, {spare, kSideMax}, {tile, kSideMax});
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

// Asks for `count` floats ahead of their use.
void prefetch(const float* from, std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < count; i += kLine) hwy::Prefetch(from + i);
}

// The tile's valid values, then zeros.
void load(const Tile& tile, ConstFloats values, float* to) {
  check_extent(tile, values.size());
  const float* from = values.data() + tile.offset;
  for (std::size_t i = 0; i < tile.rows; ++i) {
    copy_row(from + i * tile.stride, tile.cols, tile.width, to + i * kSideMax);
  }
  if (tile.tail > 0) {
    copy_row(from + tile.rows * tile.stride, tile.tail, tile.width, to + tile.rows * kSideMax);
  }
  for (std::size_t i = used_rows(tile); i < tile.height; ++i) {
    std::memset(to + i * kSideMax, 0, tile.width * sizeof(float));
  }
}

}  // namespace

void transform(std::size_t height, std::size_t width, ConstFloats in, Floats out, Basis basis) {
  TW_CHECK(in.size() == height * width && out.size() == height * width);
  const Side& down = side(basis, height);
  const Side& across = side(basis, width);
  Scratch scratch(height, width);
  for (std::size_t i = 0; i < height; ++i) {
    copy_row(in.data() + i * width, width, width, scratch.tile + i * kSideMax);
  }
  if (basis != Basis::none) {
    HWY_DYNAMIC_DISPATCH(Transform)(down, across, scratch.tile, scratch.spare);
  }
  for (std::size_t i = 0; i < height; ++i) {
    copy_row(scratch.tile + i * kSideMax, width, width, out.data() + i * width);
  }
}

void fold(const Tile& tile, ConstFloats values, float decay, float scale, Floats residual,
          Basis basis) {
  TW_CHECK(residual.size() == tile.height * tile.width);
  const Side& down = side(basis, tile.height);
  const Side& across = side(basis, tile.width);
  Scratch scratch(tile.height, tile.width);
  load(tile, values, scratch.tile);
  prefetch(residual.data(), residual.size());  // arrives while the transform runs
  if (basis != Basis::none) {
    HWY_DYNAMIC_DISPATCH(Transform)(down, across, scratch.tile, scratch.spare);
  }
  HWY_DYNAMIC_DISPATCH(AddRows)
  (tile.height, tile.width, scratch.tile, decay, scale, residual.data());
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
