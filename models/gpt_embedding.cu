// Bytes in, gradients of their rows out. Which rows carry a token is sorted on the host, so that
// each row of the table has one block, which adds in the order of the batch.
#include "models/gpt_kernels.cuh"
#include "models/gpt_warp.cuh"

namespace thinwire::gpt {
namespace {

__global__ void embed_kernel(Embedding how) {
  for (std::size_t i = global_thread(); i < how.rows * how.width; i += all_threads()) {
    const std::size_t row = i / how.width;
    const std::size_t col = i % how.width;
    float value = how.wte[how.tokens[row] * how.width + col];
    if (how.wpe != nullptr) value += how.wpe[row % how.context * how.width + col];
    how.out[i] = value;
  }
}

__global__ void token_kernel(TokenSums how) {
  const std::uint32_t begin = how.begins[blockIdx.x];
  const std::uint32_t end = how.begins[blockIdx.x + 1];
  float* sums = how.wte + how.tokens[blockIdx.x] * how.width;
  for (std::size_t col = threadIdx.x; col < how.width; col += blockDim.x) {
    float sum = 0.0f;
    for (std::uint32_t i = begin; i < end; ++i) sum += how.d[how.order[i] * how.width + col];
    sums[col] += sum;
  }
}

__global__ void position_kernel(PositionSums how) {
  for (std::size_t i = global_thread(); i < how.values; i += all_threads()) {
    float sum = 0.0f;
    for (std::size_t s = 0; s < how.sequences; ++s) sum += how.d[s * how.values + i];
    how.wpe[i] += sum;
  }
}

}  // namespace

void embed(int device, const Embedding& how) {
  device::launch(device, embed_kernel, device::shape_for(how.rows * how.width), how);
}

void add_token_sums(int device, const TokenSums& how) {
  device::launch(device, token_kernel, {static_cast<unsigned>(how.distinct), kThreads}, how);
}

void add_position_sums(int device, const PositionSums& how) {
  device::launch(device, position_kernel, device::shape_for(how.values), how);
}

}  // namespace thinwire::gpt
