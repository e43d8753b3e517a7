// How a kernel is started: on the calling thread's stream of its current device. The same source is
// compiled a second time for the host, by an emulator that the tests bring (tests/support).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "src/device/check.h"
#ifdef __CUDACC__
#include "src/device/launch_timer.h"
#endif

namespace thinwire::device {

struct Shape {
  unsigned blocks = 1;
  unsigned threads = 1;  // a block, at most 1024
};

// Enough blocks of `threads` for `count` values, at most so many that each goes round a few times.
inline Shape shape_for(std::size_t count, unsigned threads = 256, unsigned most = 4096) {
  const std::size_t blocks = (count + threads - 1) / threads;
  return {static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most), threads};
}

// All memory that the kernel touches lies on `device`. Grids of no block are not started.
template <class... Parameters, class... Arguments>
void launch(int device, void (*kernel)(Parameters...), Shape shape, Arguments... arguments) {
  if (shape.blocks == 0) return;
  check(cudaSetDevice(device), "choosing the device");
#ifdef __CUDACC__
  LaunchTimer::around([&] {
    kernel<<<shape.blocks, shape.threads, 0, cudaStreamPerThread>>>(Parameters(arguments)...);
  });
#else
  emulate(kernel, shape.blocks, shape.threads, Parameters(arguments)...);
#endif
  check(cudaGetLastError(), "starting a kernel");
}

}  // namespace thinwire::device
