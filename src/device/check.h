// For the files that are compiled with the CUDA Toolkit, or with its stand-in for tests.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "thinwire/error.h"

namespace thinwire::device {

// Throws Error in the driver's words. A device that has failed once answers the same to all that
// follows: then the process has to be started again.
inline void check(cudaError_t answer, const char* doing) {
  if (answer == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string("the CUDA device failed in ") + doing + ": " +
              cudaGetErrorString(answer) + " (" + cudaGetErrorName(answer) +
              "); go on from a checkpoint, with another device or --device cpu");
}

}  // namespace thinwire::device
