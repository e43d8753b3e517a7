// The kernels by name, for the table of gpt_kernels.cu.
#pragma once

#include "models/gpt_kernels_internal.h"

namespace thinwire::gpt {

void embed(int device, const Embedding& how);
void add_token_sums(int device, const TokenSums& how);
void add_position_sums(int device, const PositionSums& how);
void add_rows(int device, const Residual& how);
void norm(int device, const Residual& in, const Norm& how);
void norm_backward(int device, const NormGradient& how);
void column_sums(int device, const ColumnSums& how);
void cross_entropy(int device, const CrossEntropy& how);
void rows_to_heads(int device, const Heads& how);
void heads_to_rows(int device, const Heads& how);
void softmax(int device, const CausalSoftmax& how, float* scores);
void softmax_backward(int device, const CausalSoftmax& how, const float* p, float* d);
void gelu(int device, const Activations& how);
void swiglu(int device, const Activations& how);
void activation_backward(int device, const ActivationGradient& how);

}  // namespace thinwire::gpt
