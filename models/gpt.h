// A GPT over bytes, the model that thinwire trains out of the box: GPT-2's decoder (pre-norm blocks
// of causal self-attention and an MLP), forward and backward written out by hand.
//
// Linear weights are stored [in, out], as GPT-2's Conv1D does; embeddings and lm_head [vocab,
// width]. Unit 0 holds embeddings, final norm and head; unit 1 + i holds block i. Training thread
// only.
//
// On a device everything but the choice of windows is done there, and units must lend floats that
// lie there. Its loss and gradients are those of the host but for rounding; it needs cuBLASLt,
// which is loaded when the first model is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/model.h"

namespace thinwire {

class Text;

enum class Positions { learned, rotary };
enum class Activation { gelu, swiglu };  // gelu: its tanh form, as GPT-2

struct GptOptions {
  std::size_t layers = 4;
  std::size_t width = 128;  // a multiple of heads
  std::size_t heads = 4;
  std::size_t context = 128;  // tokens of one window
  std::size_t vocab = 256;    // at least 256: tokens are bytes
  std::size_t mlp_ratio =
      4;  // hidden values of the MLP / width; swiglu has twice the input weights
  Positions positions = Positions::learned;
  Activation activation = Activation::gelu;
  bool tied_head = false;  // the head is wte.weight
  bool bias = true;        // biases of norms and linear maps (the head has none); gains stay
  bool recompute = false;  // keep only the blocks' inputs and run each block twice: less memory
  int threads = 1;         // the result is equal to the bit for any number
  Device device;           // where it computes; threads are of no use on a CUDA device
  std::vector<std::string> frozen;  // parameters whose names begin so are not trained: "h.0."

  // nano 0.14 M, tiny 0.47 M, small 0.88 M or base 10.9 M parameters. UsageError lists the names.
  static GptOptions preset(std::string_view name);
  // Throws UsageError naming the field.
  void validate() const;
};

// Which windows of the text a rank trains on. `part` of `parts` takes samples
// [part * global_batch / parts, (part + 1) * global_batch / parts) of each step.
struct BatchOptions {
  std::uint64_t seed = 0;
  std::size_t global_batch = 8;  // windows per step over all parts; a multiple of parts
  std::size_t part = 0;
  std::size_t parts = 1;
  std::size_t held_out_windows = 64;  // fixed windows for held_out_loss
  std::size_t micro_batches = 1;      // Step::micros: a part is trained on in so many equal pieces
};

class Gpt final : public Model {
 public:
  // `text` must outlive the model. Throws UsageError for options that make no sense, a batch that
  // does not divide by its parts, a text too short for the context and a device that cannot be
  // used; Error when a device has no room, or cuBLASLt cannot be loaded.
  Gpt(GptOptions options, const Text& text, BatchOptions batch);
  ~Gpt() override;

  std::vector<ParameterSpec> parameters() const override;
  // N(0, 0.02), residual projections N(0, 0.02 / sqrt(2 layers)), gains 1, biases 0.
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override;
  float loss_and_grad(Units& units, const Step& step) override;
  // From the next step on, as when its site comes back to another place. Throws as the constructor.
  void set_part(std::size_t part);

  // Mean nats per byte over held-out windows [first, first + count) of held_out_windows; no
  // gradient.
  double held_out_loss(Units& units, std::size_t first, std::size_t count);

  const GptOptions& options() const { return options_; }

 private:
  struct Workspace;

  GptOptions options_;
  BatchOptions batch_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace thinwire
