// Arithmetic and vectors of a device: part of cuda_runtime.h.
#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
// Not accurate on a device either.
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); }
inline float __expf(float a) { return std::exp(a); }
inline float __logf(float a) { return std::log(a); }
inline float __fdividef(float a, float b) { return a / b; }

inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }

inline int __popc(unsigned a) { return std::popcount(a); }
inline int __popcll(unsigned long long a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return std::countl_zero(static_cast<unsigned long long>(a)); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }
inline int __mul24(int a, int b) {
  const auto low = [](int v) { return static_cast<int>(static_cast<unsigned>(v) << 8) >> 8; };
  return static_cast<int>(static_cast<unsigned>(low(a)) * static_cast<unsigned>(low(b)));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (by & 31u) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (by & 31u));
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}

#define THINWIRE_MIN_MAX(type)                              \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
THINWIRE_MIN_MAX(int)
THINWIRE_MIN_MAX(unsigned)
THINWIRE_MIN_MAX(long)
THINWIRE_MIN_MAX(unsigned long)
THINWIRE_MIN_MAX(long long)
THINWIRE_MIN_MAX(unsigned long long)
#undef THINWIRE_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#define THINWIRE_VECTORS(type, name, alignment)                               \
  struct __attribute__((aligned(2 * sizeof(type)))) name##2 {                 \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct __attribute__((aligned(alignment))) name##4 {                        \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
THINWIRE_VECTORS(float, float, 16)
THINWIRE_VECTORS(int, int, 16)
THINWIRE_VECTORS(unsigned, uint, 16)
THINWIRE_VECTORS(double, double, 16)
THINWIRE_VECTORS(unsigned short, ushort, 8)
#undef THINWIRE_VECTORS
