// Newton and Schulz's iteration for the orthogonal factor of a matrix, [replicated]: sums over k
// ascending, products and sums rounded one by one. All matrices lie in panels of 32 columns, so
// that a product reads both its sides from front to back and a tile of its result is contiguous.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/orthogonalize.cc"
#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "src/kernels/combine-inl.h"
#include "src/kernels/dispatch.h"
#include "src/kernels/norm_piece.h"
#include "src/kernels/product-inl.h"
#include "src/kernels/transpose-inl.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

#ifndef THINWIRE_KERNELS_ORTHOGONALIZE_ONCE
#define THINWIRE_KERNELS_ORTHOGONALIZE_ONCE
namespace thinwire::kernels {

constexpr std::size_t kPanel = 32;
constexpr std::size_t kTile = kPanel * kPanel;

// Element (row, column) at [column / 32][row][column % 32]. Rows and columns are rounded up to 32
// and filled with zeros, which no sum notices (docs/numerics.md).
class Panels {
 public:
  Panels(std::size_t rows, std::size_t columns)
      : rows_((rows + kPanel - 1) / kPanel * kPanel),
        count_((columns + kPanel - 1) / kPanel),
        values_(hwy::AllocateAligned<float>(std::max<std::size_t>(1, size()))) {
    if (values_ == nullptr) throw std::bad_alloc();
  }

  void clear() { std::fill_n(values_.get(), size(), 0.0f); }  // until then values are arbitrary

  std::size_t rows() const { return rows_; }
  std::size_t count() const { return count_; }
  float* panel(std::size_t j) { return values_.get() + j * rows_ * kPanel; }
  // 32 x 32 values, row by row.
  float* tile(std::size_t i, std::size_t j) { return panel(j) + i * kTile; }

 private:
  std::size_t size() const { return rows_ * count_ * kPanel; }

  std::size_t rows_;
  std::size_t count_;  // of panels
  hwy::AlignedFreeUniquePtr<float[]> values_;
};

// Of a matrix X of m x n, m <= n.
struct NewtonSchulz {
  NewtonSchulz(std::size_t m, std::size_t n)
      : x(m, n), transposed(n, m), gram(m, m), polynomial(m, m), spare(m, kPanel) {}

  Panels x;
  Panels transposed;  // X^T
  Panels gram;        // A = X X^T
  Panels polynomial;  // B = b A + c A A
  Panels spare;       // the panel of X that is being replaced
};

}  // namespace thinwire::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

HWY_INLINE void transpose_tile(float* from, float* to) {
  transpose(kPanel, kPanel, {from, kPanel}, {to, kPanel});
}

// out = a * x + y, or a * x + b * y, over a tile.
HWY_INLINE void add_tile(float a, const float* HWY_RESTRICT x, const float* HWY_RESTRICT y,
                         float* HWY_RESTRICT out) {
  const Lanes<float> d;
  const auto factor = hn::Set(d, a);
  for (std::size_t k = 0; k < kTile; k += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::Mul(factor, hn::LoadU(d, x + k)), hn::LoadU(d, y + k)), d, out + k);
  }
}
HWY_INLINE void add_tile(float a, const float* HWY_RESTRICT x, float b, const float* HWY_RESTRICT y,
                         float* HWY_RESTRICT out) {
  const Lanes<float> d;
  const auto x_factor = hn::Set(d, a);
  const auto y_factor = hn::Set(d, b);
  for (std::size_t k = 0; k < kTile; k += hn::Lanes(d)) {
    const auto added = hn::Mul(y_factor, hn::LoadU(d, y + k));
    hn::StoreU(hn::Add(hn::Mul(x_factor, hn::LoadU(d, x + k)), added), d, out + k);
  }
}

// What is given, still to be divided by its norm, and its transpose.
void Begin(Panels& given, Panels& turned, float norm) {
  const Lanes<float> d;
  const auto divisor = hn::Set(d, norm);
  for (std::size_t j = 0; j < given.count(); ++j) {
    for (std::size_t i = 0; i < turned.count(); ++i) {
      float* tile = given.tile(i, j);
      for (std::size_t k = 0; k < kTile; k += hn::Lanes(d)) {
        hn::StoreU(hn::Div(hn::LoadU(d, tile + k), divisor), d, tile + k);
      }
      transpose_tile(tile, turned.tile(j, i));
    }
  }
}

// The iteration's polynomial, a x + b x^3 + c x^5: steep at zero, about 1 over most of (0, 1].
constexpr float kA = 3.4445f;
constexpr float kB = -4.7750f;
constexpr float kC = 2.0315f;

// A = X X^T. It is symmetric to the bit, so half of it is computed.
void gram(NewtonSchulz& state) {
  for (std::size_t j = 0; j < state.gram.count(); ++j) {
    for (std::size_t i = 0; i <= j; ++i) {
      multiply(state.transposed.rows(), state.transposed.panel(i), state.transposed.panel(j),
               state.gram.tile(i, j));
      if (i < j) transpose_tile(state.gram.tile(i, j), state.gram.tile(j, i));
    }
  }
}

// B = b A + c A A, symmetric too.
void polynomial(NewtonSchulz& state) {
  alignas(64) float square[kTile];
  for (std::size_t j = 0; j < state.gram.count(); ++j) {
    for (std::size_t i = 0; i <= j; ++i) {
      multiply(state.gram.rows(), state.gram.panel(i), state.gram.panel(j), square);
      float* made = state.polynomial.tile(i, j);
      add_tile(kB, state.gram.tile(i, j), kC, square, made);
      if (i < j) transpose_tile(made, state.polynomial.tile(j, i));
    }
  }
}

// X = a X + B X
void update(NewtonSchulz& state) {
  alignas(64) float product[kTile];
  for (std::size_t j = 0; j < state.x.count(); ++j) {
    std::copy_n(state.x.panel(j), state.x.rows() * kPanel, state.spare.panel(0));
    for (std::size_t i = 0; i < state.polynomial.count(); ++i) {
      multiply(state.x.rows(), state.polynomial.panel(i), state.spare.panel(0), product);
      add_tile(kA, state.spare.tile(i, 0), product, state.x.tile(i, j));
      transpose_tile(state.x.tile(i, j), state.transposed.tile(j, i));
    }
  }
}

void Iterate(NewtonSchulz& state, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    gram(state);
    polynomial(state);
    update(state);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernels {
namespace {

HWY_EXPORT(Begin);
HWY_EXPORT(Iterate);

// Both ways between a row-major matrix and its panels.
template <class Move>
void for_each_part(std::size_t rows, std::size_t columns, float* matrix, Panels& panels,
                   const Move& move) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; j += kPanel) {
      move(matrix + i * columns + j, std::min(kPanel, columns - j),
           panels.panel(j / kPanel) + i * kPanel);
    }
  }
}

}  // namespace

void orthogonalize(std::size_t rows, std::size_t cols, Floats matrix, int iterations) {
  TW_CHECK(matrix.size() == rows * cols);
  if (const DeviceKernels* twins = twins_for(matrix)) {
    return twins->orthogonalize(rows, cols, matrix, iterations);
  }
  double squares = 0.0;
  for (std::size_t at = 0; at < matrix.size(); at += kNormPiece) {
    squares += sum_squares(matrix.subspan(at, std::min(kNormPiece, matrix.size() - at)));
  }
  const auto norm = static_cast<float>(std::sqrt(squares) + 1e-7);
  const bool tall = rows > cols;
  NewtonSchulz state(std::min(rows, cols), std::max(rows, cols));
  Panels& given = tall ? state.transposed : state.x;
  Panels& turned = tall ? state.x : state.transposed;
  if (rows % kPanel != 0 || cols % kPanel != 0) given.clear();
  for_each_part(
      rows, cols, matrix.data(), given,
      [](const float* from, std::size_t count, float* to) { std::copy_n(from, count, to); });
  HWY_DYNAMIC_DISPATCH(Begin)(given, turned, norm);
  HWY_DYNAMIC_DISPATCH(Iterate)(state, iterations);
  for_each_part(
      rows, cols, matrix.data(), given,
      [](float* to, std::size_t count, const float* from) { std::copy_n(from, count, to); });
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
