// Atomic operations, which order nothing: part of cuda_runtime.h. Each returns the old value.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace thinwire::fake_cuda {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T, class Change>
T change_atomically(T* address, const Change& change) {
  using Aliased __attribute__((may_alias)) = Bits<T>;
  auto* const there = reinterpret_cast<Aliased*>(address);
  Bits<T> old = __atomic_load_n(there, __ATOMIC_RELAXED);
  for (;;) {
    const T before = std::bit_cast<T>(old);
    const Bits<T> next = std::bit_cast<Bits<T>>(change(before));
    if (__atomic_compare_exchange_n(there, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return before;
    }
  }
}

}  // namespace thinwire::fake_cuda

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) >= 4 && !std::is_same_v<T, long> && !std::is_same_v<T, unsigned long> &&
                    !std::is_same_v<T, long long>,
                "CUDA has no atomicAdd of this type");
  return thinwire::fake_cuda::change_atomically(
      address, [value](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return thinwire::fake_cuda::change_atomically(
      address, [value](T old) { return old > value ? old : value; });
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return thinwire::fake_cuda::change_atomically(
      address, [value](T old) { return old < value ? old : value; });
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return thinwire::fake_cuda::change_atomically(address, [value](T old) { return old | value; });
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return thinwire::fake_cuda::change_atomically(address, [value](T old) { return old & value; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return thinwire::fake_cuda::change_atomically(address, [value](T) { return value; });
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>);
  return thinwire::fake_cuda::change_atomically(
      address, [expected, value](T old) { return old == expected ? value : old; });
}
