// GptCore<float> on a device: the same passes and formulas, for a whole batch at a time. Pointers
// of weights and gradients lie there. What it does is handed over in the calling thread's order;
// only take_loss waits. One thread at a time.
//
// A pass: start, embed, block 0 .. n-1, loss; then head_backward, block_backward n-1 .. 0,
// outer_backward. Each call reads only the weights of one unit. Gradients of unit 0 are written by
// outer_backward alone, so that this unit is leased once, at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/device_products_internal.h"
#include "models/gpt_core.h"
#include "models/gpt_kernels_internal.h"
#include "src/device/array.h"
#include "thinwire/device.h"

namespace thinwire {

class GptDevice {
 public:
  using Weights = GptCore<float>::Weights;    // null where the options have none
  using Gradient = GptCore<float>::Gradient;  // null where none is wanted

  // Room for up to `sequences` windows at a time. Throws Error when the device has none for them.
  GptDevice(const GptOptions& options, std::size_t sequences, Device device);

  // Each window points to context + 1 bytes; they are copied.
  void start(std::span<const std::uint8_t* const> windows);
  void embed(const Weights& w);
  void block(std::size_t layer, const Weights& w);
  // The sum over all targets of -log p, in nats, is what take_loss says; prepares the gradient of
  // scale * that sum.
  void loss(const Weights& w, float scale);
  double take_loss();

  void head_backward(const Weights& w);
  // Overwrites the gradient.
  void block_backward(std::size_t layer, const Weights& w, const Gradient& g);
  // Overwrites the gradient, except that it adds to wte and wpe: they must be zeros.
  void outer_backward(const Gradient& g);

 private:
  // What the backward pass of a block needs of its forward pass.
  struct Kept {
    float *norm1, *mean1, *scale1;  // [rows, width], [rows], [rows]
    float *heads, *probabilities;   // [3, sequences, heads, context, size], [.., context, context]
    float *attended, *middle;       // [rows, width]
    float *norm2, *mean2, *scale2;
    float* inner;   // [rows, inner_]: what enters the activation, then its derivative
    float* active;  // [rows, hidden_]
  };
  // Floats that are to lie somewhere in memory_.
  struct Wish {
    float** where;
    std::size_t count;
  };

  void lay_out(std::size_t layers, std::size_t rows);
  void wish_for(Kept& kept, std::size_t rows);
  void make_rotation();

  void run_block(const Weights& w, const Kept& kept, const float* in, float* out);
  void attend(const Weights& w, const Kept& kept);
  void mlp_backward(const Weights& w, const Gradient& g, const Kept& kept);
  void attention_backward(const Weights& w, const Gradient& g, const Kept& kept, const float* in);
  void heads_backward(const Kept& kept);
  // d_stream_ += what d_width_ is before the norm; the gain's and bias's gradients.
  void norm_backward(const gpt::NormGradient& how, float* d_gain, float* d_bias);
  void bias_gradient(const float* d, std::size_t cols, float* sums);
  // The weight's gradient = in^T d_out.
  void weight_gradient(const float* in, std::size_t from, const float* d_out, std::size_t to,
                       float* gradient);

  gpt::Heads heads_of(std::size_t parts) const;
  gpt::CausalSoftmax softmax_of() const;
  // Matrices of attention, one for each head of each sequence; part 0, 1, 2: q, k, v.
  math::View<float> head_matrix(float* heads, std::size_t part = 0) const;
  math::View<float> scores_matrix(float* scores) const;
  gpt::Batch head_batch(std::size_t a, std::size_t b, std::size_t c) const;
  math::View<float> rows_of(float* data, std::size_t cols) const { return {data, rows_, cols}; }
  math::View<const float> rows_of(const float* data, std::size_t cols) const {
    return {data, rows_, cols};
  }

  const gpt::GptKernels& kernels_;
  const Device device_;
  const std::size_t width_, heads_, context_, vocab_, hidden_, inner_, size_;  // size_: of a head
  const bool rotary_, swiglu_, tied_, recompute_;
  const std::size_t capacity_;  // rows
  std::size_t sequences_ = 0;   // of the pass in progress
  std::size_t rows_ = 0;        // sequences_ * context_
  std::size_t distinct_ = 0;    // tokens among the inputs

  std::vector<Wish> wishes_;
  FloatBuffer memory_;
  std::vector<float*> streams_;  // [layers + 1] of [rows, width]: what enters block i
  std::vector<Kept> kept_;       // one per block, or one in all
  float *norm_f_, *mean_f_, *scale_f_, *logits_;
  float* d_norm_f_;  // [2, width]: of the last norm's gain and bias
  float *d_stream_, *d_width_, *d_qkv_, *d_hidden_, *d_scores_, *d_heads_, *sums_;
  float *cosines_ = nullptr, *sines_ = nullptr;  // [context, size_ / 2]
  device::Array<std::uint32_t> tokens_;  // inputs, targets, order [rows]; which [256], begins [257]
  std::vector<std::uint32_t> staged_;    // the same on the host
  device::Array<double> losses_;         // of rows, then their sum
  std::unique_ptr<gpt::DeviceProducts> products_;
};

}  // namespace thinwire
