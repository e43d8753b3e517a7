// The one rounding to bf16, for the host and for devices.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define THINWIRE_EVERYWHERE __host__ __device__
#else
#define THINWIRE_EVERYWHERE
#endif

namespace thinwire::kernels {

// The bits of the nearest bf16, ties to even, from those of a float. What is not a number stays so.
THINWIRE_EVERYWHERE inline std::uint32_t to_bf16(std::uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;  // a quiet NaN
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

THINWIRE_EVERYWHERE inline std::uint32_t from_bf16(std::uint32_t bf16) { return bf16 << 16; }

}  // namespace thinwire::kernels
