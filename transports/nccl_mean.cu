#include <algorithm>

#include "src/device/launch.cuh"
#include "thinwire/error.h"
#include "transports/nccl_mean_internal.h"

namespace thinwire {
namespace {

struct Sources {
  const float* of[kNcclRanksMax];
};

// As ordered_mean: each value is added up in the order of members and divided once. `out` may be
// the place of one source, so nobody else reads the value that a thread writes.
__global__ void mean_kernel(Sources sources, int members, float* out, std::size_t size) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += stride) {
    float sum = sources.of[0][i];
    for (int member = 1; member < members; ++member) sum = sum + sources.of[member][i];
    out[i] = __fdiv_rn(sum, static_cast<float>(members));
  }
}

}  // namespace

void nccl_mean(std::span<const float* const> sources, Floats out) {
  TW_CHECK(sources.size() <= kNcclRanksMax);
  if (out.empty()) return;
  Sources all{};
  std::copy(sources.begin(), sources.end(), all.of);
  device::launch(out.device().index(), mean_kernel, device::shape_for(out.size()), all,
                 static_cast<int>(sources.size()), out.data(), out.size());
}

}  // namespace thinwire
