// The mathematics of one slice of a batch, on plain pointers: knows no units and no threads. Float
// trains, double proves the gradients. Buffers are taken once and reused; one thread at a time.
//
// A pass: start, embed, block 0 .. n-1, loss; then head_backward, block_backward n-1 .. 0,
// embed_backward. Each call reads only the weights of one unit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/aligned.h"
#include "models/gpt.h"
#include "thinwire/layout.h"

namespace thinwire {

// The parameters of unit 0, then those of any block.
enum Slot : std::size_t {
  kWte,
  kWpe,
  kNormFGain,
  kNormFBias,
  kHead,
  kNorm1Gain,
  kNorm1Bias,
  kAttnWeight,
  kAttnBias,
  kProjWeight,
  kProjBias,
  kNorm2Gain,
  kNorm2Bias,
  kFcWeight,
  kFcBias,
  kOutWeight,
  kOutBias,
  kSlots
};

struct GptParameter {
  ParameterSpec spec;
  Slot slot;
};
// In the order of Model::parameters(), with GPT-2's names.
std::vector<GptParameter> gpt_parameters(const GptOptions& options);

template <class Scalar>
class GptCore {
 public:
  using Weights = std::array<const Scalar*, kSlots>;  // null where the options have none
  using Gradient = std::array<Scalar*, kSlots>;       // null where none is wanted

  // Room for up to `sequences` windows at a time.
  GptCore(const GptOptions& options, std::size_t sequences);

  // Each window points to context + 1 bytes; they are copied.
  void start(std::span<const std::uint8_t* const> windows);
  void embed(const Weights& w);
  void block(std::size_t layer, const Weights& w);
  // The sum over all targets of -log p, in nats; prepares the gradient of scale * that sum.
  double loss(const Weights& w, Scalar scale);

  // These overwrite the gradient, except that embed_backward adds to wte when the head is tied.
  void head_backward(const Weights& w, const Gradient& g);
  void block_backward(std::size_t layer, const Weights& w, const Gradient& g);
  void embed_backward(const Gradient& g);

 private:
  // What the backward pass of a block needs of its forward pass.
  struct Kept {
    Scalar *norm1, *mean1, *scale1;  // [rows, width], [rows], [rows]
    Scalar *qkv, *probabilities;     // [rows, 3 width], [sequences, heads, context, context]
    Scalar *attended, *middle;       // [rows, width]
    Scalar *norm2, *mean2, *scale2;
    Scalar* inner;   // [rows, inner_]: what enters the activation, then its derivative
    Scalar* active;  // [rows, hidden_]
  };

  Scalar* take(std::size_t count);
  Kept take_kept(std::size_t rows);
  void make_rotation();
  void run_block(const Weights& w, const Kept& kept, const Scalar* in, Scalar* out);
  void mlp_backward(const Weights& w, const Gradient& g, const Kept& kept);
  void attention_backward(const Weights& w, const Gradient& g, const Kept& kept, const Scalar* in);

  const std::size_t width_, heads_, context_, vocab_, hidden_, inner_;
  const bool rotary_, swiglu_, tied_, recompute_;
  std::size_t sequences_ = 0;  // of the pass in progress
  std::size_t rows_ = 0;       // sequences_ * context_

  std::vector<AlignedArray<Scalar>> owned_;
  std::vector<std::uint8_t> inputs_, targets_;  // [rows]
  std::vector<Scalar*> streams_;  // [layers + 1] of [rows, width]: what enters block i
  std::vector<Kept> kept_;        // one per block, or one in all
  Scalar *norm_f_, *mean_f_, *scale_f_, *logits_;
  Scalar *d_stream_, *d_width_, *d_qkv_, *d_hidden_, *d_scores_, *scratch_;
  Scalar *cosines_ = nullptr, *sines_ = nullptr;  // [context, width / heads / 2]
};

}  // namespace thinwire
