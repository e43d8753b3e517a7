#include "models/gpt_core.h"

#include <algorithm>
#include <cmath>

#include "models/gpt_math.h"
#include "thinwire/error.h"

namespace thinwire {

using math::View;

template <class S>
GptCore<S>::GptCore(const GptOptions& options, std::size_t sequences)
    : width_(options.width),
      heads_(options.heads),
      context_(options.context),
      vocab_(options.vocab),
      hidden_(options.mlp_ratio * options.width),
      inner_(options.activation == Activation::swiglu ? 2 * hidden_ : hidden_),
      rotary_(options.positions == Positions::rotary),
      swiglu_(options.activation == Activation::swiglu),
      tied_(options.tied_head),
      recompute_(options.recompute) {
  const std::size_t rows = sequences * context_;
  inputs_.resize(rows);
  targets_.resize(rows);
  for (std::size_t i = 0; i <= options.layers; ++i) streams_.push_back(take(rows * width_));
  for (std::size_t i = 0; i < (recompute_ ? 1 : options.layers); ++i) {
    kept_.push_back(take_kept(rows));
  }
  norm_f_ = take(rows * width_);
  mean_f_ = take(rows);
  scale_f_ = take(rows);
  logits_ = take(rows * vocab_);
  d_stream_ = take(rows * width_);
  d_width_ = take(rows * width_);
  d_qkv_ = take(rows * 3 * width_);
  d_hidden_ = take(rows * hidden_);
  d_scores_ = take(context_ * context_);
  scratch_ = take(2 * width_);
  if (rotary_) make_rotation();
}

template <class S>
S* GptCore<S>::take(std::size_t count) {
  owned_.push_back(aligned_array<S>(count));
  return owned_.back().get();
}

template <class S>
typename GptCore<S>::Kept GptCore<S>::take_kept(std::size_t rows) {
  Kept kept;
  kept.norm1 = take(rows * width_);
  kept.mean1 = take(rows);
  kept.scale1 = take(rows);
  kept.qkv = take(rows * 3 * width_);
  kept.probabilities = take(rows * heads_ * context_);
  kept.attended = take(rows * width_);
  kept.middle = take(rows * width_);
  kept.norm2 = take(rows * width_);
  kept.mean2 = take(rows);
  kept.scale2 = take(rows);
  kept.inner = take(rows * inner_);
  kept.active = take(rows * hidden_);
  return kept;
}

// Su et al. 2021, eq. 15: position t turns pair j of a head by t / 10000^(2 j / size).
template <class S>
void GptCore<S>::make_rotation() {
  const std::size_t half = width_ / heads_ / 2;
  cosines_ = take(context_ * half);
  sines_ = take(context_ * half);
  for (std::size_t t = 0; t < context_; ++t) {
    for (std::size_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(t) *
                           std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half));
      cosines_[t * half + j] = static_cast<S>(std::cos(angle));
      sines_[t * half + j] = static_cast<S>(std::sin(angle));
    }
  }
}

template <class S>
void GptCore<S>::start(std::span<const std::uint8_t* const> windows) {
  TW_CHECK(windows.size() * context_ <= inputs_.size());
  sequences_ = windows.size();
  rows_ = sequences_ * context_;
  for (std::size_t i = 0; i < sequences_; ++i) {
    std::copy_n(windows[i], context_, inputs_.begin() + i * context_);
    std::copy_n(windows[i] + 1, context_, targets_.begin() + i * context_);
  }
}

template <class S>
void GptCore<S>::embed(const Weights& w) {
  for (std::size_t row = 0; row < rows_; ++row) {
    const S* position = rotary_ ? nullptr : w[kWpe] + row % context_ * width_;
    math::fill_rows(View<S>(streams_[0] + row * width_, 1, width_), w[kWte] + inputs_[row] * width_,
                    position);
  }
}

template <class S>
void GptCore<S>::block(std::size_t layer, const Weights& w) {
  run_block(w, kept_[recompute_ ? 0 : layer], streams_[layer], streams_[layer + 1]);
}

// out may be null: then only what is kept is computed.
template <class S>
void GptCore<S>::run_block(const Weights& w, const Kept& kept, const S* in, S* out) {
  using Product = math::Product<S>;
  const math::Attention<S> attention{sequences_, context_, width_, heads_};
  math::Norm<S>{rows_, width_, in, kept.mean1, kept.scale1, w[kNorm1Gain], w[kNorm1Bias]}.forward(
      kept.norm1);
  View<S> qkv(kept.qkv, rows_, 3 * width_);
  math::fill_rows<S>(qkv, nullptr, w[kAttnBias]);
  Product::add_nn(View<const S>(kept.norm1, rows_, width_),
                  View<const S>(w[kAttnWeight], width_, 3 * width_), qkv);
  if (rotary_) attention.rotate(cosines_, sines_, S(1), kept.qkv);
  attention.forward(kept.qkv, kept.probabilities, kept.attended);

  View<S> middle(kept.middle, rows_, width_);
  math::fill_rows(middle, in, w[kProjBias]);
  Product::add_nn(View<const S>(kept.attended, rows_, width_),
                  View<const S>(w[kProjWeight], width_, width_), middle);

  math::Norm<S>{rows_, width_, kept.middle, kept.mean2, kept.scale2, w[kNorm2Gain], w[kNorm2Bias]}
      .forward(kept.norm2);
  View<S> inner(kept.inner, rows_, inner_);
  math::fill_rows<S>(inner, nullptr, w[kFcBias]);
  Product::add_nn(View<const S>(kept.norm2, rows_, width_),
                  View<const S>(w[kFcWeight], width_, inner_), inner);
  if (swiglu_) {
    math::swiglu(rows_, hidden_, kept.inner, kept.active);
  } else {
    math::gelu(rows_ * hidden_, kept.inner, kept.active);
  }
  if (out == nullptr) return;
  View<S> result(out, rows_, width_);
  math::fill_rows<S>(result, kept.middle, w[kOutBias]);
  Product::add_nn(View<const S>(kept.active, rows_, hidden_),
                  View<const S>(w[kOutWeight], hidden_, width_), result);
}

template <class S>
double GptCore<S>::loss(const Weights& w, S scale) {
  math::Norm<S>{rows_, width_, streams_.back(), mean_f_, scale_f_, w[kNormFGain], w[kNormFBias]}
      .forward(norm_f_);
  View<S> logits(logits_, rows_, vocab_);
  math::Product<S>::nt(View<const S>(norm_f_, rows_, width_),
                       View<const S>(w[tied_ ? kWte : kHead], vocab_, width_), logits);
  return math::cross_entropy(logits, targets_.data(), scale);
}

template <class S>
void GptCore<S>::head_backward(const Weights& w, const Gradient& g) {
  const Slot head = tied_ ? kWte : kHead;
  const View<const S> d_logits(logits_, rows_, vocab_);
  if (g[head] != nullptr) {
    math::Product<S>::tn(d_logits, View<const S>(norm_f_, rows_, width_),
                         View<S>(g[head], vocab_, width_));
  }
  math::Product<S>::nn(d_logits, View<const S>(w[head], vocab_, width_),
                       View<S>(d_width_, rows_, width_));
  std::fill_n(d_stream_, rows_ * width_, S(0));
  math::Norm<S>{rows_, width_, streams_.back(), mean_f_, scale_f_, w[kNormFGain], w[kNormFBias]}
      .backward(d_width_, d_stream_, g[kNormFGain], g[kNormFBias], scratch_);
}

template <class S>
void GptCore<S>::block_backward(std::size_t layer, const Weights& w, const Gradient& g) {
  const Kept& kept = kept_[recompute_ ? 0 : layer];
  if (recompute_) run_block(w, kept, streams_[layer], nullptr);
  mlp_backward(w, g, kept);
  attention_backward(w, g, kept, streams_[layer]);
}

template <class S>
void GptCore<S>::mlp_backward(const Weights& w, const Gradient& g, const Kept& kept) {
  using Product = math::Product<S>;
  const View<const S> d_out(d_stream_, rows_, width_);
  if (g[kOutWeight] != nullptr) {
    Product::tn(View<const S>(kept.active, rows_, hidden_), d_out,
                View<S>(g[kOutWeight], hidden_, width_));
  }
  math::sum_rows(d_out, g[kOutBias]);
  Product::nt(d_out, View<const S>(w[kOutWeight], hidden_, width_),
              View<S>(d_hidden_, rows_, hidden_));
  math::activation_backward(rows_, hidden_, inner_, d_hidden_, kept.inner, g[kFcBias]);
  const View<const S> d_inner(kept.inner, rows_, inner_);
  if (g[kFcWeight] != nullptr) {
    Product::tn(View<const S>(kept.norm2, rows_, width_), d_inner,
                View<S>(g[kFcWeight], width_, inner_));
  }
  Product::nt(d_inner, View<const S>(w[kFcWeight], width_, inner_),
              View<S>(d_width_, rows_, width_));
  math::Norm<S>{rows_, width_, kept.middle, kept.mean2, kept.scale2, w[kNorm2Gain], w[kNorm2Bias]}
      .backward(d_width_, d_stream_, g[kNorm2Gain], g[kNorm2Bias], scratch_);
}

template <class S>
void GptCore<S>::attention_backward(const Weights& w, const Gradient& g, const Kept& kept,
                                    const S* in) {
  using Product = math::Product<S>;
  const math::Attention<S> attention{sequences_, context_, width_, heads_};
  const View<const S> d_middle(d_stream_, rows_, width_);
  if (g[kProjWeight] != nullptr) {
    Product::tn(View<const S>(kept.attended, rows_, width_), d_middle,
                View<S>(g[kProjWeight], width_, width_));
  }
  math::sum_rows(d_middle, g[kProjBias]);
  Product::nt(d_middle, View<const S>(w[kProjWeight], width_, width_),
              View<S>(d_width_, rows_, width_));
  attention.backward(kept.qkv, kept.probabilities, d_width_, d_qkv_, d_scores_);
  if (rotary_) attention.rotate(cosines_, sines_, S(-1), d_qkv_);
  const View<const S> d_qkv(d_qkv_, rows_, 3 * width_);
  if (g[kAttnWeight] != nullptr) {
    Product::tn(View<const S>(kept.norm1, rows_, width_), d_qkv,
                View<S>(g[kAttnWeight], width_, 3 * width_));
  }
  math::sum_rows(d_qkv, g[kAttnBias]);
  Product::nt(d_qkv, View<const S>(w[kAttnWeight], width_, 3 * width_),
              View<S>(d_width_, rows_, width_));
  math::Norm<S>{rows_, width_, in, kept.mean1, kept.scale1, w[kNorm1Gain], w[kNorm1Bias]}.backward(
      d_width_, d_stream_, g[kNorm1Gain], g[kNorm1Bias], scratch_);
}

template <class S>
void GptCore<S>::embed_backward(const Gradient& g) {
  if (g[kWte] != nullptr && !tied_) std::fill_n(g[kWte], vocab_ * width_, S(0));
  if (g[kWpe] != nullptr) std::fill_n(g[kWpe], context_ * width_, S(0));
  for (std::size_t row = 0; row < rows_; ++row) {
    const S* d = d_stream_ + row * width_;
    for (S* sum : {g[kWte] == nullptr ? nullptr : g[kWte] + inputs_[row] * width_,
                   g[kWpe] == nullptr ? nullptr : g[kWpe] + row % context_ * width_}) {
      if (sum == nullptr) continue;
      for (std::size_t j = 0; j < width_; ++j) sum[j] += d[j];
    }
  }
}

template class GptCore<float>;
template class GptCore<double>;

}  // namespace thinwire
