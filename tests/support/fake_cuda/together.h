// Barriers, shuffles and votes: part of cuda_runtime.h.
#pragma once

#include <cstdint>
#include <cstring>

inline void __syncthreads() {
  thinwire::fake_cuda::meet_block(thinwire::fake_cuda::Barrier::plain, false);
}
inline int __syncthreads_count(int vote) {
  return static_cast<int>(
      thinwire::fake_cuda::meet_block(thinwire::fake_cuda::Barrier::count, vote != 0));
}
inline int __syncthreads_or(int vote) {
  return thinwire::fake_cuda::meet_block(thinwire::fake_cuda::Barrier::any, vote != 0) > 0;
}
inline int __syncthreads_and(int vote) {
  return thinwire::fake_cuda::meet_block(thinwire::fake_cuda::Barrier::all, vote != 0) ==
         blockDim.x;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  thinwire::fake_cuda::meet_warp(thinwire::fake_cuda::Meeting::sync, mask, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace thinwire::fake_cuda {

inline unsigned lane() { return threadIdx.x % 32u; }

template <class T>
T value_of_lane(unsigned mask, T value, unsigned from) {
  static_assert(std::is_arithmetic_v<T>);
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = meet_warp(Meeting::shuffle, mask, bits, from);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace thinwire::fake_cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned first = thinwire::fake_cuda::lane() & ~(static_cast<unsigned>(width) - 1);
  return thinwire::fake_cuda::value_of_lane(
      mask, value, first + (static_cast<unsigned>(from) & (static_cast<unsigned>(width) - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned lane = thinwire::fake_cuda::lane();
  const unsigned within = lane & (static_cast<unsigned>(width) - 1);
  return thinwire::fake_cuda::value_of_lane(mask, value, within < by ? lane : lane - by);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned lane = thinwire::fake_cuda::lane();
  const unsigned within = lane & (static_cast<unsigned>(width) - 1);
  const bool there = within + by < static_cast<unsigned>(width);
  return thinwire::fake_cuda::value_of_lane(mask, value, there ? lane + by : lane);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned lane = thinwire::fake_cuda::lane();
  const unsigned from = lane ^ static_cast<unsigned>(bits);
  const unsigned end = (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return thinwire::fake_cuda::value_of_lane(mask, value, from < end ? from : lane);
}

inline unsigned __ballot_sync(unsigned mask, int vote) {
  return static_cast<unsigned>(thinwire::fake_cuda::meet_warp(thinwire::fake_cuda::Meeting::ballot,
                                                              mask, vote != 0 ? 1u : 0u));
}
inline int __any_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) != 0; }
inline int __all_sync(unsigned mask, int vote) { return __ballot_sync(mask, vote) == mask; }

#define THINWIRE_REDUCE(name, type, meeting)                                          \
  inline type name(unsigned mask, type value) {                                       \
    return static_cast<type>(static_cast<unsigned>(thinwire::fake_cuda::meet_warp(    \
        thinwire::fake_cuda::Meeting::meeting, mask, static_cast<unsigned>(value)))); \
  }
THINWIRE_REDUCE(__reduce_add_sync, unsigned, add)
THINWIRE_REDUCE(__reduce_add_sync, int, add)
THINWIRE_REDUCE(__reduce_min_sync, unsigned, least)
THINWIRE_REDUCE(__reduce_min_sync, int, least_signed)
THINWIRE_REDUCE(__reduce_max_sync, unsigned, most)
THINWIRE_REDUCE(__reduce_max_sync, int, most_signed)
#undef THINWIRE_REDUCE
