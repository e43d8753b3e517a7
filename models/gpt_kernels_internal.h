// What a GPT on a device does between its matrix products. Two sets: gpt_kernels.cu, and
// gpt_kernels_absent.cc where there is no toolkit. All pointers lie on the device that comes first;
// matrices are row-major and without gaps. Work is handed over in the calling thread's order.
//
// Nothing depends on the order in which blocks run: what is asked for twice has the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::gpt {

// out[row] = wte[tokens[row]] + wpe[row % context]; wpe may be null.
struct Embedding {
  std::size_t rows, width, context;
  const std::uint32_t* tokens;
  const float *wte, *wpe;
  float* out;
};

// wte[tokens[i]] += the sum of d over rows order[begins[i]] .. order[begins[i + 1] - 1], for each
// of the `distinct` tokens of a batch.
struct TokenSums {
  std::size_t distinct, width;
  const std::uint32_t *tokens, *begins, *order;
  const float* d;
  float* wte;
};

// wpe[i] += the sum over sequences of their i-th value of d, i < values.
struct PositionSums {
  std::size_t sequences, values;
  const float* d;
  float* wpe;
};

// in, plus add and bias[column] where these are not null.
struct Residual {
  std::size_t rows, width;
  const float *in, *add, *bias;
  float* out;  // null: nobody wants the sum itself
};

// Layer norm over rows of a residual, eps 1e-5; mean and scale (1 / deviation) are kept.
struct Norm {
  float *mean, *scale;
  const float *gain, *bias;  // bias may be null
  float* out;
};

// d_in += the gradient (or = it, if `fresh`) of a norm whose input was `in`.
struct NormGradient {
  std::size_t rows, width;
  const float *in, *mean, *scale, *gain, *d_out;
  float* d_in;
  bool fresh;
};

// Sums over rows: of d in d_bias, of d times the normalized input in d_gain. Either may be null; so
// may in, mean and scale where no gain is asked for.
struct ColumnSums {
  std::size_t rows, cols;
  const float *d, *in, *mean, *scale;
  float* d_gain;
  float* d_bias;
  float* scratch;  // column_scratch(cols)
};
// Sums go in bands of rows first, then over the bands.
inline constexpr std::size_t kBandsMost = 128;
constexpr std::size_t column_scratch(std::size_t cols) { return 2 * kBandsMost * cols; }

// Rows of `parts` x heads x size values, and the same as parts x sequences x heads matrices of
// [context, size]: q, k and v (parts 3), or what attention has made of them (1).
struct Heads {
  std::size_t sequences, context, heads, size, parts;
  const float* bias;             // of rows, added on the way to matrices; may be null
  const float *cosines, *sines;  // [context, size / 2]: parts 0 and 1 are turned; or null
  const float* in;
  float* out;
};

// Rows of square matrices of `context` rows. forward: softmax(factor * row) up to the diagonal, 0
// beyond. backward: d becomes factor * p * (d - sum(p * d)), 0 beyond.
struct CausalSoftmax {
  std::size_t rows, context;
  float factor;
};

// x = [rows, inner] before its bias (may be null). active = [rows, hidden] = its activation; x
// becomes the derivative: gelu'(x), or of swiglu (inner = 2 hidden) silu'(gate) up and silu(gate).
struct Activations {
  std::size_t rows, hidden;
  const float* bias;
  float *x, *active;
};

// x (a derivative as above, `inner` wide) *= d_active.
struct ActivationGradient {
  std::size_t rows, hidden, inner;
  const float* d_active;
  float* x;
};

// *loss = the sum of -log softmax(logits)[target] over rows; logits become
// scale * (softmax - one at target).
struct CrossEntropy {
  std::size_t rows, vocab;
  float* logits;
  const std::uint32_t* targets;
  float scale;
  double *row_losses, *loss;
};

struct GptKernels {
  // gpt_embedding.cu
  void (*embed)(int device, const Embedding& how);
  void (*add_token_sums)(int device, const TokenSums& how);
  void (*add_position_sums)(int device, const PositionSums& how);
  // gpt_rows.cu
  void (*add_rows)(int device, const Residual& how);
  void (*norm)(int device, const Residual& in, const Norm& how);
  void (*norm_backward)(int device, const NormGradient& how);
  void (*column_sums)(int device, const ColumnSums& how);
  void (*cross_entropy)(int device, const CrossEntropy& how);
  // gpt_attention.cu
  void (*rows_to_heads)(int device, const Heads& how);
  void (*heads_to_rows)(int device, const Heads& how);  // turns back
  void (*softmax)(int device, const CausalSoftmax& how, float* scores);
  void (*softmax_backward)(int device, const CausalSoftmax& how, const float* p, float* d);
  // gpt_activation.cu
  void (*gelu)(int device, const Activations& how);
  void (*swiglu)(int device, const Activations& how);
  void (*activation_backward)(int device, const ActivationGradient& how);
};

// Null in a program that was built without CUDA.
const GptKernels* gpt_kernels();

}  // namespace thinwire::gpt
