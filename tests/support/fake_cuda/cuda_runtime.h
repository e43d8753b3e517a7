// What a kernel's source needs to be an ordinary program of the host: its dialect as macros and
// functions, threads by block.h. Grids and blocks have one dimension; the memory that threads share
// is declared in the kernel, with its size. Numbers are rounded as on a device that is compiled
// with -fmad=false.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tests/support/fake_cuda/block.h"

namespace thinwire::fake_cuda {

struct Index {
  unsigned x;
  unsigned y;
  unsigned z;
};

}  // namespace thinwire::fake_cuda

extern constinit thread_local thinwire::fake_cuda::Index threadIdx;
extern constinit thread_local thinwire::fake_cuda::Index blockIdx;
extern constinit thread_local thinwire::fake_cuda::Index blockDim;
extern constinit thread_local thinwire::fake_cuda::Index gridDim;
inline constexpr int warpSize = 32;

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static thread_local  // blocks run one after another
#define __align__(bytes) __attribute__((aligned(bytes)))

#include "tests/support/fake_cuda/atomics.h"
#include "tests/support/fake_cuda/numbers.h"
#include "tests/support/fake_cuda/together.h"

namespace thinwire::fake_cuda {

// Into the stream of the calling thread; what a launch returns is in cudaGetLastError.
void start(unsigned blocks, unsigned threads, std::function<void()> thread);

}  // namespace thinwire::fake_cuda

namespace thinwire::device {

template <class... Parameters>
void emulate(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
             std::type_identity_t<Parameters>... arguments) {
  fake_cuda::start(blocks, threads, [kernel, arguments...] { kernel(arguments...); });
}

}  // namespace thinwire::device
