#include <algorithm>
#include <array>
#include <cmath>

#include "models/gpt_device_internal.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::size_t kByteValues = 256;
constexpr std::size_t kLine = 64;  // floats: 256 bytes, what products and wide loads like

const gpt::GptKernels& kernels_of(Device device) {
  require(device);
  TW_CHECK(!device.is_host() && gpt::gpt_kernels() != nullptr);
  return *gpt::gpt_kernels();
}

}  // namespace

GptDevice::GptDevice(const GptOptions& options, std::size_t sequences, Device device)
    : kernels_(kernels_of(device)),
      device_(device),
      width_(options.width),
      heads_(options.heads),
      context_(options.context),
      vocab_(options.vocab),
      hidden_(options.mlp_ratio * options.width),
      inner_(options.activation == Activation::swiglu ? 2 * hidden_ : hidden_),
      size_(width_ / heads_),
      rotary_(options.positions == Positions::rotary),
      swiglu_(options.activation == Activation::swiglu),
      tied_(options.tied_head),
      recompute_(options.recompute),
      capacity_(sequences * context_),
      streams_(options.layers + 1),
      kept_(options.recompute ? 1 : options.layers) {
  lay_out(options.layers, capacity_);
  tokens_ = device::Array<std::uint32_t>(device_, 3 * capacity_ + 2 * kByteValues + 1);
  staged_.resize(tokens_.size());
  losses_ = device::Array<double>(device_, capacity_ + 1);
  products_ = gpt::make_device_products(device_);
  if (rotary_) make_rotation();
  wait_for(device_);  // another thread may be the one that uses it
}

// One piece of memory for everything: when there is no room, the message says what all of it needs.
void GptDevice::lay_out(std::size_t layers, std::size_t rows) {
  const auto wish = [&](float*& where, std::size_t count) { wishes_.push_back({&where, count}); };
  for (std::size_t i = 0; i <= layers; ++i) wish(streams_[i], rows * width_);
  for (Kept& kept : kept_) wish_for(kept, rows);
  wish(norm_f_, rows * width_);
  wish(mean_f_, rows);
  wish(scale_f_, rows);
  wish(logits_, rows * vocab_);
  wish(d_norm_f_, 2 * width_);
  wish(d_stream_, rows * width_);
  wish(d_width_, rows * width_);
  wish(d_qkv_, rows * 3 * width_);
  wish(d_hidden_, rows * hidden_);
  wish(d_scores_, rows * heads_ * context_);
  wish(d_heads_, rows * 4 * width_);
  wish(sums_, gpt::column_scratch(std::max(inner_, 3 * width_)));
  if (rotary_) {
    wish(cosines_, context_ * size_ / 2);
    wish(sines_, context_ * size_ / 2);
  }
  std::size_t total = 0;
  for (const Wish& one : wishes_) total += (one.count + kLine - 1) / kLine * kLine;
  memory_ = FloatBuffer(total, device_);
  float* next = memory_.floats().data();
  for (const Wish& one : wishes_) {
    *one.where = next;
    next += (one.count + kLine - 1) / kLine * kLine;
  }
  wishes_.clear();
}

void GptDevice::wish_for(Kept& kept, std::size_t rows) {
  wishes_.insert(wishes_.end(), {{&kept.norm1, rows * width_},
                                 {&kept.mean1, rows},
                                 {&kept.scale1, rows},
                                 {&kept.heads, rows * 3 * width_},
                                 {&kept.probabilities, rows * heads_ * context_},
                                 {&kept.attended, rows * width_},
                                 {&kept.middle, rows * width_},
                                 {&kept.norm2, rows * width_},
                                 {&kept.mean2, rows},
                                 {&kept.scale2, rows},
                                 {&kept.inner, rows * inner_},
                                 {&kept.active, rows * hidden_}});
}

// The angles of GptCore.
void GptDevice::make_rotation() {
  const std::size_t half = size_ / 2;
  std::vector<float> cosines(context_ * half);
  std::vector<float> sines(context_ * half);
  for (std::size_t t = 0; t < context_; ++t) {
    for (std::size_t j = 0; j < half; ++j) {
      const double angle = static_cast<double>(t) *
                           std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half));
      cosines[t * half + j] = static_cast<float>(std::cos(angle));
      sines[t * half + j] = static_cast<float>(std::sin(angle));
    }
  }
  copy(cosines, {cosines_, cosines.size(), device_});
  copy(sines, {sines_, sines.size(), device_});
}

// Rows are sorted by their token, each token's in the order of the batch.
void GptDevice::start(std::span<const std::uint8_t* const> windows) {
  TW_CHECK(windows.size() * context_ <= capacity_);
  sequences_ = windows.size();
  rows_ = sequences_ * context_;
  std::uint32_t* const inputs = staged_.data();
  std::uint32_t* const targets = inputs + capacity_;
  std::uint32_t* const order = targets + capacity_;
  std::uint32_t* const which = order + capacity_;
  std::uint32_t* const begins = which + kByteValues;
  for (std::size_t i = 0; i < sequences_; ++i) {
    std::copy_n(windows[i], context_, inputs + i * context_);
    std::copy_n(windows[i] + 1, context_, targets + i * context_);
  }
  std::array<std::uint32_t, kByteValues> next{};
  for (std::size_t row = 0; row < rows_; ++row) ++next[inputs[row]];
  distinct_ = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t token = 0; token < kByteValues; ++token) {
    const std::uint32_t count = next[token];
    next[token] = begin;
    if (count == 0) continue;
    which[distinct_] = token;
    begins[distinct_++] = begin;
    begin += count;
  }
  begins[distinct_] = begin;
  for (std::size_t row = 0; row < rows_; ++row) {
    order[next[inputs[row]]++] = static_cast<std::uint32_t>(row);
  }
  // Plain memory of the host: its bytes have been taken when the call returns, nobody waits.
  device::copy(device_.index(), tokens_.get(), staged_.data(),
               staged_.size() * sizeof(std::uint32_t), false);
}

void GptDevice::embed(const Weights& w) {
  kernels_.embed(device_.index(), {rows_, width_, context_, tokens_.get(), w[kWte],
                                   rotary_ ? nullptr : w[kWpe], streams_[0]});
}

void GptDevice::block(std::size_t layer, const Weights& w) {
  run_block(w, kept_[recompute_ ? 0 : layer], streams_[layer], streams_[layer + 1]);
}

gpt::Heads GptDevice::heads_of(std::size_t parts) const {
  gpt::Heads heads{};
  heads.sequences = sequences_;
  heads.context = context_;
  heads.heads = heads_;
  heads.size = size_;
  heads.parts = parts;
  if (rotary_ && parts == 3) {
    heads.cosines = cosines_;
    heads.sines = sines_;
  }
  return heads;
}

gpt::CausalSoftmax GptDevice::softmax_of() const {
  return {rows_ * heads_, context_, 1.0f / std::sqrt(static_cast<float>(size_))};
}

math::View<float> GptDevice::head_matrix(float* heads, std::size_t part) const {
  return {heads + part * rows_ * width_, context_, size_};
}

math::View<float> GptDevice::scores_matrix(float* scores) const {
  return {scores, context_, context_};
}

// a, b, c: columns of each factor and of the product, all of `context` rows.
gpt::Batch GptDevice::head_batch(std::size_t a, std::size_t b, std::size_t c) const {
  return {sequences_ * heads_, context_ * a, context_ * b, context_ * c};
}

// kept.norm1 to kept.attended. d_qkv_ and d_heads_ are free while a block runs forward.
void GptDevice::attend(const Weights& w, const Kept& kept) {
  products_->multiply(gpt::Form::nn, rows_of(kept.norm1, width_),
                      {w[kAttnWeight], width_, 3 * width_}, rows_of(d_qkv_, 3 * width_));
  gpt::Heads in = heads_of(3);
  in.bias = w[kAttnBias];
  in.in = d_qkv_;
  in.out = kept.heads;
  kernels_.rows_to_heads(device_.index(), in);
  products_->multiply(gpt::Form::nt, head_matrix(kept.heads, 0), head_matrix(kept.heads, 1),
                      scores_matrix(kept.probabilities), head_batch(size_, size_, context_));
  kernels_.softmax(device_.index(), softmax_of(), kept.probabilities);
  products_->multiply(gpt::Form::nn, scores_matrix(kept.probabilities), head_matrix(kept.heads, 2),
                      head_matrix(d_heads_), head_batch(context_, size_, size_));
  gpt::Heads out = heads_of(1);
  out.in = d_heads_;
  out.out = kept.attended;
  kernels_.heads_to_rows(device_.index(), out);
}

// out may be null: then only what is kept is computed.
void GptDevice::run_block(const Weights& w, const Kept& kept, const float* in, float* out) {
  const int on = device_.index();
  kernels_.norm(on, {rows_, width_, in, nullptr, nullptr, nullptr},
                {kept.mean1, kept.scale1, w[kNorm1Gain], w[kNorm1Bias], kept.norm1});
  attend(w, kept);
  products_->multiply(gpt::Form::nn, rows_of(kept.attended, width_),
                      {w[kProjWeight], width_, width_}, rows_of(d_width_, width_));
  kernels_.norm(on, {rows_, width_, in, d_width_, w[kProjBias], kept.middle},
                {kept.mean2, kept.scale2, w[kNorm2Gain], w[kNorm2Bias], kept.norm2});
  products_->multiply(gpt::Form::nn, rows_of(kept.norm2, width_), {w[kFcWeight], width_, inner_},
                      rows_of(kept.inner, inner_));
  (swiglu_ ? kernels_.swiglu : kernels_.gelu)(
      on, {rows_, hidden_, w[kFcBias], kept.inner, kept.active});
  if (out == nullptr) return;
  products_->multiply(gpt::Form::nn, rows_of(kept.active, hidden_),
                      {w[kOutWeight], hidden_, width_}, rows_of(d_width_, width_));
  kernels_.add_rows(on, {rows_, width_, kept.middle, d_width_, w[kOutBias], out});
}

void GptDevice::loss(const Weights& w, float scale) {
  kernels_.norm(device_.index(), {rows_, width_, streams_.back(), nullptr, nullptr, nullptr},
                {mean_f_, scale_f_, w[kNormFGain], w[kNormFBias], norm_f_});
  products_->multiply(gpt::Form::nt, rows_of(norm_f_, width_),
                      {w[tied_ ? kWte : kHead], vocab_, width_}, rows_of(logits_, vocab_));
  kernels_.cross_entropy(device_.index(), {rows_, vocab_, logits_, tokens_.get() + capacity_, scale,
                                           losses_.get(), losses_.get() + capacity_});
}

double GptDevice::take_loss() {
  double loss = 0.0;
  device::copy(device_.index(), &loss, losses_.get() + capacity_, sizeof loss, true);
  return loss;
}

}  // namespace thinwire
