#include "models/gpt_kernels.cuh"

namespace thinwire::gpt {

const GptKernels* gpt_kernels() {
  static constexpr GptKernels kTable = {
      .embed = &embed,
      .add_token_sums = &add_token_sums,
      .add_position_sums = &add_position_sums,
      .add_rows = &add_rows,
      .norm = &norm,
      .norm_backward = &norm_backward,
      .column_sums = &column_sums,
      .cross_entropy = &cross_entropy,
      .rows_to_heads = &rows_to_heads,
      .heads_to_rows = &heads_to_rows,
      .softmax = &softmax,
      .softmax_backward = &softmax_backward,
      .gelu = &gelu,
      .swiglu = &swiglu,
      .activation_backward = &activation_backward,
  };
  return &kTable;
}

}  // namespace thinwire::gpt
