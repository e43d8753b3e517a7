// The fast transforms of one line of 64 values in a thread's registers: columns-inl.h and
// hadamard-inl.h step by step, with the same roundings, hence the same bits as the host's where
// that has fused multiply-add. All indices are known to the compiler, so nothing is in memory.
#pragma once

#include "src/device/launch.cuh"
#include "src/kernels/basis.h"
#include "src/kernels/tile.cuh"

namespace thinwire::kernels {

constexpr int factor_count(int length) {
  if (is_dense(length)) return length * length;
  const int half = length / 2;
  const int odd = splits(length) ? half + 2 * factor_count(length / 4) : half * half;
  return odd + factor_count(half);
}
// As variables: device code may not call a function of the host, not even for a constant.
template <int kLength>
inline constexpr bool kIsDense = is_dense(kLength);
template <int kLength>
inline constexpr bool kSplits = splits(kLength);
template <int kLength>
inline constexpr int kFactorCount = factor_count(kLength);

constexpr int kFactors = kFactorCount<kSide>;

// Side::forward or backward of 64. A kernel takes them as a parameter: there they are operands of
// its instructions, and no device has to be prepared.
struct Factors {
  float of[kFactors];
};

// Values kFirst, kFirst + kStep, ... of a line.
template <int kFirst, int kStep>
struct Part {
  static constexpr int kBegin = kFirst;
  static constexpr int kStride = kStep;
  template <int kFrom, int kTimes>
  using From = Part<kFirst + kFrom * kStep, kStep * kTimes>;
};

template <class Where>
constexpr __device__ int at(int i) {
  return Where::kBegin + i * Where::kStride;
}

__device__ inline void sum_and_difference(float& low, float& high) {
  const float a = low;
  const float b = high;
  low = __fadd_rn(a, b);
  high = __fadd_rn(a, -b);
}

// out[o] = sum over t of factors[t][o] x[t]
template <int kInputs, int kFirst, class X, class Out>
__device__ __forceinline__ void product(const Factors& factors, const float (&x)[kSide],
                                        float (&out)[kSide]) {
#pragma unroll
  for (int o = 0; o < kInputs; ++o) {
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < kInputs; ++t) {
      sum = __fmaf_rn(factors.of[kFirst + t * kInputs + o], x[at<X>(t)], sum);
    }
    out[at<Out>(o)] = sum;
  }
}

// See columns-inl.h for what is computed.
template <int kLength, int kFirst, class X, class Out>
__device__ __forceinline__ void transform_line(const Factors& factors, float (&x)[kSide],
                                               float (&out)[kSide]);

template <int kLength, int kFirst, class X, class Out>
__device__ __forceinline__ void odd_half(const Factors& factors, float (&x)[kSide],
                                         float (&out)[kSide]) {
  constexpr int kQuarter = kLength / 4;
#pragma unroll
  for (int j = 0; j < kQuarter; ++j) {
    const float cosine = factors.of[kFirst + 2 * j];
    const float sine = factors.of[kFirst + 2 * j + 1];
    const float sign = j % 2 == 0 ? 1.0f : -1.0f;
    const float low = x[at<X>(kLength - 1 - j)];
    const float high = x[at<X>(kLength / 2 + j)];
    x[at<X>(kLength / 2 + j)] = __fmaf_rn(cosine, low, __fmul_rn(sine, high));
    x[at<X>(kLength - 1 - j)] = __fmaf_rn(sign * cosine, high, -__fmul_rn(sign * sine, low));
  }
  constexpr int kNext = kFirst + 2 * kQuarter;
  transform_line<kQuarter, kNext, typename X::template From<kLength / 2, 1>,
                 typename Out::template From<1, 4>>(factors, x, out);
  transform_line<kQuarter, kNext + kFactorCount<kQuarter>,
                 typename X::template From<kLength - 1, -1>,
                 typename Out::template From<kLength - 1, -4>>(factors, x, out);
#pragma unroll
  for (int k = 1; k < kQuarter; ++k) {
    sum_and_difference(out[at<Out>(4 * k + 1)], out[at<Out>(4 * k - 1)]);
  }
}

template <int kLength, int kFirst, class X, class Out>
__device__ __forceinline__ void transform_line(const Factors& factors, float (&x)[kSide],
                                               float (&out)[kSide]) {
  if constexpr (kIsDense<kLength>) {
    product<kLength, kFirst, X, Out>(factors, x, out);
  } else {
    constexpr int kHalf = kLength / 2;
#pragma unroll
    for (int j = 0; j < kHalf; ++j) sum_and_difference(x[at<X>(j)], x[at<X>(kLength - 1 - j)]);
    if constexpr (kSplits<kLength>) {
      odd_half<kLength, kFirst, X, Out>(factors, x, out);
    } else {
      product<kHalf, kFirst, typename X::template From<kLength - 1, -1>,
              typename Out::template From<1, 2>>(factors, x, out);
    }
    constexpr int kEven = kFirst + kFactorCount<kLength> - kFactorCount<kHalf>;
    transform_line<kHalf, kEven, X, typename Out::template From<0, 2>>(factors, x, out);
  }
}

// The way back: the transpose, the same steps back to front.
template <int kLength, int kFirst, class Y, class Out>
__device__ __forceinline__ void restore_line(const Factors& factors, float (&y)[kSide],
                                             float (&out)[kSide]);

template <int kLength, int kFirst, class Y, class Out>
__device__ __forceinline__ void restore_odd_half(const Factors& factors, float (&y)[kSide],
                                                 float (&out)[kSide]) {
  constexpr int kQuarter = kLength / 4;
  constexpr int kNext = kFirst + 2 * kQuarter;
#pragma unroll
  for (int k = 1; k < kQuarter; ++k) {
    sum_and_difference(y[at<Y>(4 * k + 1)], y[at<Y>(4 * k - 1)]);
  }
  restore_line<kQuarter, kNext, typename Y::template From<1, 4>,
               typename Out::template From<kLength / 2, 1>>(factors, y, out);
  restore_line<kQuarter, kNext + kFactorCount<kQuarter>, typename Y::template From<kLength - 1, -4>,
               typename Out::template From<kLength - 1, -1>>(factors, y, out);
#pragma unroll
  for (int j = 0; j < kQuarter; ++j) {
    const float cosine = factors.of[kFirst + 2 * j];
    const float sine = factors.of[kFirst + 2 * j + 1];
    const float sign = j % 2 == 0 ? 1.0f : -1.0f;
    const float a = out[at<Out>(kLength / 2 + j)];
    const float b = out[at<Out>(kLength - 1 - j)];
    out[at<Out>(kLength - 1 - j)] = __fmaf_rn(cosine, a, -__fmul_rn(sign * sine, b));
    out[at<Out>(kLength / 2 + j)] = __fmaf_rn(sine, a, __fmul_rn(sign * cosine, b));
  }
}

template <int kLength, int kFirst, class Y, class Out>
__device__ __forceinline__ void restore_line(const Factors& factors, float (&y)[kSide],
                                             float (&out)[kSide]) {
  if constexpr (kIsDense<kLength>) {
    product<kLength, kFirst, Y, Out>(factors, y, out);
  } else {
    constexpr int kHalf = kLength / 2;
    if constexpr (kSplits<kLength>) {
      restore_odd_half<kLength, kFirst, Y, Out>(factors, y, out);
    } else {
      product<kHalf, kFirst, typename Y::template From<1, 2>,
              typename Out::template From<kLength - 1, -1>>(factors, y, out);
    }
    constexpr int kEven = kFirst + kFactorCount<kLength> - kFactorCount<kHalf>;
    restore_line<kHalf, kEven, typename Y::template From<0, 2>, Out>(factors, y, out);
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      sum_and_difference(out[at<Out>(j)], out[at<Out>(kLength - 1 - j)]);
    }
  }
}

// Walsh and Hadamard's, its own inverse, in place: three double levels, the first of which scales.
__device__ __forceinline__ void hadamard_line(float (&x)[kSide]) {
  constexpr float kNorm = 0.125f;  // 1 / sqrt(64)
#pragma unroll
  for (int i = 0; i < kSide; ++i) x[i] = __fmul_rn(kNorm, x[i]);
#pragma unroll
  for (int stride = 1; stride < kSide; stride *= 4) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      if (i / stride % 4 != 0) continue;
      float& a = x[i];
      float& b = x[i + stride];
      float& c = x[i + 2 * stride];
      float& d = x[i + 3 * stride];
      sum_and_difference(a, b);
      sum_and_difference(c, d);
      sum_and_difference(a, c);
      sum_and_difference(b, d);
    }
  }
}

using WholeLine = Part<0, 1>;

template <Basis kBasis>
__device__ __forceinline__ void transform_line(const Factors& factors, float (&x)[kSide]) {
  if constexpr (kBasis == Basis::dct) {
    float out[kSide];
    transform_line<kSide, 0, WholeLine, WholeLine>(factors, x, out);
#pragma unroll
    for (int i = 0; i < kSide; ++i) x[i] = out[i];
  } else if constexpr (kBasis == Basis::hadamard) {
    hadamard_line(x);
  }
}

template <Basis kBasis>
__device__ __forceinline__ void restore_line(const Factors& factors, float (&y)[kSide]) {
  if constexpr (kBasis == Basis::dct) {
    float out[kSide];
    restore_line<kSide, 0, WholeLine, WholeLine>(factors, y, out);
#pragma unroll
    for (int i = 0; i < kSide; ++i) y[i] = out[i];
  } else if constexpr (kBasis == Basis::hadamard) {
    hadamard_line(y);
  }
}

}  // namespace thinwire::kernels
