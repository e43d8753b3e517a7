// The fast transforms: both sides by the same vertical pass (columns in vector lanes), with a
// transposition after each. Private to a site, hence with fused multiply-add where there is one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/dct.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "src/kernels/basis.h"
#include "src/kernels/columns-inl.h"
#include "src/kernels/combine-inl.h"
#include "src/kernels/extent.h"
#include "src/kernels/hadamard-inl.h"
#include "src/kernels/transpose-inl.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE void transform_side(const Side& side, std::size_t columns, Rows x, Rows out) {
  if (side.basis == Basis::hadamard) return hadamard_columns(side, columns, x, out);
  const float* factors = side.forward.data();
  transform_columns(side.length, factors, columns, x, out);
}

HWY_INLINE void restore_side(const Side& side, std::size_t columns, Rows y, Rows out) {
  if (side.basis == Basis::hadamard) return hadamard_columns(side, columns, y, out);
  const float* factors = side.backward.data();
  restore_columns(side.length, factors, columns, y, out);
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

// The way back.
void Restore(const Side& down, const Side& across, float* HWY_RESTRICT tile,
             float* HWY_RESTRICT spare) {
  restore_side(down, across.length, {tile, kSideMax}, {spare, kSideMax});
  transpose(down.length, across.length, {spare, kSideMax}, {tile, kSideMax});
  restore_side(across, down.length, {tile, kSideMax}, {spare, kSideMax});
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
HWY_EXPORT(Restore);
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
  check_on_host(in, out);
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
  check_on_host(values, residual);
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

void inverse_fast(const Tile& tile, ConstFloats coefficients, Floats values, Basis basis) {
  check_on_host(coefficients, values);
  TW_CHECK(coefficients.size() == tile.height * tile.width);
  check_extent(tile, values.size());
  const Side& down = side(basis, tile.height);
  const Side& across = side(basis, tile.width);
  Scratch scratch(tile.height, tile.width);
  for (std::size_t i = 0; i < tile.height; ++i) {
    copy_row(coefficients.data() + i * tile.width, tile.width, tile.width,
             scratch.tile + i * kSideMax);
  }
  if (basis != Basis::none) {
    HWY_DYNAMIC_DISPATCH(Restore)(down, across, scratch.tile, scratch.spare);
  }
  float* to = values.data() + tile.offset;
  for (std::size_t i = 0; i < used_rows(tile); ++i) {
    const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
    copy_row(scratch.tile + i * kSideMax, count, count, to + i * tile.stride);
  }
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
