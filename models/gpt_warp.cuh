// A warp of threads at one row: what the model's kernels share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/launch.cuh"

namespace thinwire::gpt {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// The same bits in every lane: each pair adds the same two numbers.
__device__ inline float warp_sum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

__device__ inline std::size_t global_thread() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::size_t all_threads() { return std::size_t{gridDim.x} * blockDim.x; }

// Rows are dealt to warps: first_row(), first_row() + row_step(), ...
__device__ inline std::size_t first_row() { return global_thread() / kWarp; }
__device__ inline std::size_t row_step() { return all_threads() / kWarp; }
__device__ inline unsigned lane() { return threadIdx.x % kWarp; }

inline device::Shape warps_for(std::size_t rows) {
  return device::shape_for(rows * kWarp, kThreads);
}

}  // namespace thinwire::gpt
