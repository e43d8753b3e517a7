#include "models/gpt_math.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

namespace thinwire::math {
namespace {

template <class S>
using Matrix = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class S>
using Row = Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>>;
template <class S>
using ConstRow = Eigen::Map<const Eigen::Array<S, Eigen::Dynamic, 1>>;

template <class S>
auto map(View<S> v) {
  return Eigen::Map<Matrix<S>, Eigen::Unaligned, Eigen::OuterStride<>>(
      v.data, v.rows, v.cols, Eigen::OuterStride<>(v.stride));
}

template <class S>
auto map(View<const S> v) {
  return Eigen::Map<const Matrix<S>, Eigen::Unaligned, Eigen::OuterStride<>>(
      v.data, v.rows, v.cols, Eigen::OuterStride<>(v.stride));
}

// Elementwise work goes piece by piece, so that what one expression writes the next finds in L1.
constexpr std::size_t kPiece = 512;
template <class S>
using Piece = Eigen::Array<S, Eigen::Dynamic, 1, Eigen::ColMajor, kPiece, 1>;

}  // namespace

template <class S>
void Product<S>::nn(In a, In b, View<S> c) {
  map(c).noalias() = map(a) * map(b);
}
template <class S>
void Product<S>::add_nn(In a, In b, View<S> c) {
  map(c).noalias() += map(a) * map(b);
}
template <class S>
void Product<S>::nt(In a, In b, View<S> c) {
  map(c).noalias() = map(a) * map(b).transpose();
}
template <class S>
void Product<S>::tn(In a, In b, View<S> c) {
  map(c).noalias() = map(a).transpose() * map(b);
}

template <class S>
void fill_rows(View<S> out, const S* base, const S* bias) {
  for (std::size_t i = 0; i < out.rows; ++i) {
    Row<S> row(out.data + i * out.stride, out.cols);
    if (base != nullptr && bias != nullptr) {
      row = ConstRow<S>(base + i * out.cols, out.cols) + ConstRow<S>(bias, out.cols);
    } else if (base != nullptr) {
      row = ConstRow<S>(base + i * out.cols, out.cols);
    } else if (bias != nullptr) {
      row = ConstRow<S>(bias, out.cols);
    } else {
      row.setZero();
    }
  }
}

template <class S>
void sum_rows(View<const S> values, S* sums) {
  if (sums == nullptr) return;
  Row<S> sum(sums, values.cols);
  sum.setZero();
  for (std::size_t i = 0; i < values.rows; ++i) {
    sum += ConstRow<S>(values.data + i * values.stride, values.cols);
  }
}

template <class S>
void Norm<S>::forward(S* out) const {
  constexpr S kEps = S(1e-5);
  const ConstRow<S> gains(gain, width);
  for (std::size_t i = 0; i < rows; ++i) {
    const ConstRow<S> x(in + i * width, width);
    Row<S> y(out + i * width, width);
    mean[i] = x.mean();
    scale[i] = S(1) / std::sqrt((x - mean[i]).square().mean() + kEps);
    if (bias != nullptr) {
      y = (x - mean[i]) * scale[i] * gains + ConstRow<S>(bias, width);
    } else {
      y = (x - mean[i]) * scale[i] * gains;
    }
  }
}

// With n the normalized row and d = d_out * gain: d_in = scale * (d - mean(d) - n * mean(d * n)).
template <class S>
void Norm<S>::backward(const S* d_out, S* d_in, S* d_gain, S* d_bias, S* scratch) const {
  const ConstRow<S> gains(gain, width);
  if (d_gain != nullptr) Row<S>(d_gain, width).setZero();
  if (d_bias != nullptr) Row<S>(d_bias, width).setZero();
  Row<S> n(scratch, width);
  Row<S> d(scratch + width, width);
  for (std::size_t i = 0; i < rows; ++i) {
    const ConstRow<S> dy(d_out + i * width, width);
    n = (ConstRow<S>(in + i * width, width) - mean[i]) * scale[i];
    d = dy * gains;
    const S mean_d = d.mean();
    const S mean_dn = (d * n).mean();
    Row<S>(d_in + i * width, width) += (d - mean_d - n * mean_dn) * scale[i];
    if (d_gain != nullptr) Row<S>(d_gain, width) += dy * n;
    if (d_bias != nullptr) Row<S>(d_bias, width) += dy;
  }
}

// gelu(x) = x (1 + t) / 2, t = tanh(a x + b x^3).
template <class S>
void gelu(std::size_t count, S* x, S* y) {
  constexpr S kA = S(0.7978845608028654);  // sqrt(2 / pi)
  constexpr S kB = kA * S(0.044715);
  Piece<S> t;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    const std::size_t size = std::min(kPiece, count - begin);
    Row<S> in(x + begin, size);
    Row<S> out(y + begin, size);
    t = (in * (kA + kB * in.square())).tanh();
    out = S(0.5) * in * (S(1) + t);
    in = S(0.5) * (S(1) + t) + S(0.5) * in * (S(1) - t.square()) * (kA + S(3) * kB * in.square());
  }
}

// silu(x) = x s, s = 1 / (1 + exp(-x)); silu'(x) = s (1 + x (1 - s)).
template <class S>
void swiglu(std::size_t rows, std::size_t hidden, S* x, S* y) {
  Piece<S> s;
  Piece<S> silu;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t begin = 0; begin < hidden; begin += kPiece) {
      const std::size_t size = std::min(kPiece, hidden - begin);
      Row<S> gate(x + i * 2 * hidden + begin, size);
      Row<S> up(x + i * 2 * hidden + hidden + begin, size);
      s = (S(1) + (-gate).exp()).inverse();
      silu = gate * s;
      Row<S>(y + i * hidden + begin, size) = silu * up;
      gate = s * (S(1) + gate - silu) * up;
      up = silu;
    }
  }
}

template <class S>
void activation_backward(std::size_t rows, std::size_t hidden, std::size_t inner, const S* d_y,
                         S* x, S* d_bias) {
  if (d_bias != nullptr) Row<S>(d_bias, inner).setZero();
  for (std::size_t i = 0; i < rows; ++i) {
    const ConstRow<S> dy(d_y + i * hidden, hidden);
    for (std::size_t half = 0; half < inner; half += hidden) {
      Row<S> dx(x + i * inner + half, hidden);
      dx *= dy;
      if (d_bias != nullptr) Row<S>(d_bias + half, hidden) += dx;
    }
  }
}

template <class S>
double cross_entropy(View<S> logits, const std::uint8_t* targets, S scale) {
  double total = 0.0;
  for (std::size_t i = 0; i < logits.rows; ++i) {
    Row<S> row(logits.data + i * logits.stride, logits.cols);
    const S top = row.maxCoeff();
    const S wanted = row[targets[i]] - top;
    row = (row - top).exp();
    const S sum = row.sum();
    total += std::log(static_cast<double>(sum)) - static_cast<double>(wanted);
    row *= scale / sum;
    row[targets[i]] -= scale;
  }
  return total;
}

#define THINWIRE_DEFINE(S)                                                                    \
  template struct Product<S>;                                                                 \
  template struct Norm<S>;                                                                    \
  template void fill_rows(View<S>, const S*, const S*);                                       \
  template void sum_rows(View<const S>, S*);                                                  \
  template void gelu(std::size_t, S*, S*);                                                    \
  template void swiglu(std::size_t, std::size_t, S*, S*);                                     \
  template void activation_backward(std::size_t, std::size_t, std::size_t, const S*, S*, S*); \
  template double cross_entropy(View<S>, const std::uint8_t*, S);
THINWIRE_DEFINE(float)
THINWIRE_DEFINE(double)
#undef THINWIRE_DEFINE

}  // namespace thinwire::math
