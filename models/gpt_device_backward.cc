#include "models/gpt_device_internal.h"

namespace thinwire {

using gpt::Form;

void GptDevice::weight_gradient(const float* in, std::size_t from, const float* d_out,
                                std::size_t to, float* gradient) {
  if (gradient == nullptr) return;
  products_->multiply(Form::tn, rows_of(in, from), rows_of(d_out, to), {gradient, from, to});
}

void GptDevice::bias_gradient(const float* d, std::size_t cols, float* sums) {
  gpt::ColumnSums how{};
  how.rows = rows_;
  how.cols = cols;
  how.d = d;
  how.d_bias = sums;
  how.scratch = sums_;
  kernels_.column_sums(device_.index(), how);
}

void GptDevice::norm_backward(const gpt::NormGradient& how, float* d_gain, float* d_bias) {
  kernels_.norm_backward(device_.index(), how);
  kernels_.column_sums(device_.index(), {how.rows, how.width, how.d_out, how.in, how.mean,
                                         how.scale, d_gain, d_bias, sums_});
}

void GptDevice::head_backward(const Weights& w) {
  products_->multiply(Form::nn, rows_of(logits_, vocab_), {w[tied_ ? kWte : kHead], vocab_, width_},
                      rows_of(d_width_, width_));
  norm_backward(
      {rows_, width_, streams_.back(), mean_f_, scale_f_, w[kNormFGain], d_width_, d_stream_, true},
      d_norm_f_, d_norm_f_ + width_);
}

void GptDevice::block_backward(std::size_t layer, const Weights& w, const Gradient& g) {
  const Kept& kept = kept_[recompute_ ? 0 : layer];
  if (recompute_) run_block(w, kept, streams_[layer], nullptr);
  mlp_backward(w, g, kept);
  attention_backward(w, g, kept, streams_[layer]);
}

void GptDevice::mlp_backward(const Weights& w, const Gradient& g, const Kept& kept) {
  weight_gradient(kept.active, hidden_, d_stream_, width_, g[kOutWeight]);
  bias_gradient(d_stream_, width_, g[kOutBias]);
  products_->multiply(Form::nt, rows_of(d_stream_, width_), {w[kOutWeight], hidden_, width_},
                      rows_of(d_hidden_, hidden_));
  kernels_.activation_backward(device_.index(), {rows_, hidden_, inner_, d_hidden_, kept.inner});
  weight_gradient(kept.norm2, width_, kept.inner, inner_, g[kFcWeight]);
  bias_gradient(kept.inner, inner_, g[kFcBias]);
  products_->multiply(Form::nt, rows_of(kept.inner, inner_), {w[kFcWeight], width_, inner_},
                      rows_of(d_width_, width_));
  norm_backward({rows_, width_, kept.middle, kept.mean2, kept.scale2, w[kNorm2Gain], d_width_,
                 d_stream_, false},
                g[kNorm2Gain], g[kNorm2Bias]);
}

void GptDevice::attention_backward(const Weights& w, const Gradient& g, const Kept& kept,
                                   const float* in) {
  weight_gradient(kept.attended, width_, d_stream_, width_, g[kProjWeight]);
  bias_gradient(d_stream_, width_, g[kProjBias]);
  products_->multiply(Form::nt, rows_of(d_stream_, width_), {w[kProjWeight], width_, width_},
                      rows_of(d_width_, width_));
  heads_backward(kept);
  weight_gradient(kept.norm1, width_, d_qkv_, 3 * width_, g[kAttnWeight]);
  bias_gradient(d_qkv_, 3 * width_, g[kAttnBias]);
  products_->multiply(Form::nt, rows_of(d_qkv_, 3 * width_), {w[kAttnWeight], width_, 3 * width_},
                      rows_of(d_width_, width_));
  norm_backward(
      {rows_, width_, in, kept.mean1, kept.scale1, w[kNorm1Gain], d_width_, d_stream_, false},
      g[kNorm1Gain], g[kNorm1Bias]);
}

// d_width_, of what attention has made, to d_qkv_. d_heads_: of q, k and v, then of their output.
void GptDevice::heads_backward(const Kept& kept) {
  float* const d_out = d_heads_ + 3 * rows_ * width_;
  gpt::Heads in = heads_of(1);
  in.in = d_width_;
  in.out = d_out;
  kernels_.rows_to_heads(device_.index(), in);
  products_->multiply(Form::tn, scores_matrix(kept.probabilities), head_matrix(d_out),
                      head_matrix(d_heads_, 2), head_batch(context_, size_, size_));
  products_->multiply(Form::nt, head_matrix(d_out), head_matrix(kept.heads, 2),
                      scores_matrix(d_scores_), head_batch(size_, size_, context_));
  kernels_.softmax_backward(device_.index(), softmax_of(), kept.probabilities, d_scores_);
  products_->multiply(Form::nn, scores_matrix(d_scores_), head_matrix(kept.heads, 1),
                      head_matrix(d_heads_, 0), head_batch(context_, size_, size_));
  products_->multiply(Form::tn, scores_matrix(d_scores_), head_matrix(kept.heads, 0),
                      head_matrix(d_heads_, 1), head_batch(context_, size_, size_));
  gpt::Heads out = heads_of(3);
  out.in = d_heads_;
  out.out = d_qkv_;
  kernels_.heads_to_rows(device_.index(), out);
}

void GptDevice::outer_backward(const Gradient& g) {
  weight_gradient(logits_, vocab_, norm_f_, width_, g[tied_ ? kWte : kHead]);
  if (g[kNormFGain] != nullptr) {
    copy({d_norm_f_, width_, device_}, {g[kNormFGain], width_, device_});
  }
  if (g[kNormFBias] != nullptr) {
    copy({d_norm_f_ + width_, width_, device_}, {g[kNormFBias], width_, device_});
  }
  const std::uint32_t* const order = tokens_.get() + 2 * capacity_;
  const std::uint32_t* const which = order + capacity_;
  if (g[kWte] != nullptr) {
    kernels_.add_token_sums(device_.index(),
                            {distinct_, width_, which, which + 256, order, d_stream_, g[kWte]});
  }
  if (g[kWpe] != nullptr) {
    kernels_.add_position_sums(device_.index(),
                               {sequences_, context_ * width_, d_stream_, g[kWpe]});
  }
}

}  // namespace thinwire
