#include <algorithm>
#include <string>
#include <utility>

#include "models/gpt_core.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

void need(bool holds, const std::string& complaint) {
  if (!holds) throw UsageError("gpt: " + complaint);
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// Collects the parameters of a unit; biases only where the options have them.
struct List {
  const GptOptions& options;
  std::vector<GptParameter> all;

  void add(int unit, std::string name, Slot slot, std::vector<std::size_t> shape,
           bool table = false) {
    const bool trainable = !begins_with_any(name, options.frozen);
    all.push_back({{std::move(name), std::move(shape), unit, trainable, table}, slot});
  }
  void table(std::string name, Slot slot, std::size_t rows) {
    add(0, std::move(name), slot, {rows, options.width}, true);
  }
  void norm(int unit, const std::string& name, Slot gain, Slot bias) {
    add(unit, name + ".weight", gain, {options.width});
    if (options.bias) add(unit, name + ".bias", bias, {options.width});
  }
  void linear(int unit, const std::string& name, std::pair<Slot, Slot> slots,
              std::pair<std::size_t, std::size_t> shape) {
    add(unit, name + ".weight", slots.first, {shape.first, shape.second});
    if (options.bias) add(unit, name + ".bias", slots.second, {shape.second});
  }
};

}  // namespace

GptOptions GptOptions::preset(std::string_view name) {
  GptOptions options;  // "small"
  if (name == "small") return options;
  if (name == "nano") {
    options.layers = 2;
    options.width = 64;
    options.context = 64;
    return options;
  }
  if (name == "tiny") {
    options.layers = 2;
    options.context = 64;
    return options;
  }
  if (name == "base") {
    options.layers = 6;
    options.width = 384;
    options.heads = 6;
    options.context = 256;
    return options;
  }
  throw UsageError("unknown model '" + std::string(name) + "'; known: nano, tiny, small, base");
}

void GptOptions::validate() const {
  const auto within = [](const char* field, std::size_t value, std::size_t low, std::size_t high) {
    need(low <= value && value <= high, std::string(field) + " is " + std::to_string(value) +
                                            "; it must lie between " + std::to_string(low) +
                                            " and " + std::to_string(high));
  };
  within("layers", layers, 1, 1000);
  within("width", width, 1, 1 << 16);
  within("heads", heads, 1, 1 << 16);
  within("context", context, 1, 1 << 16);
  within("vocab", vocab, 256, 1 << 20);
  within("mlp_ratio", mlp_ratio, 1, 64);
  need(width % heads == 0, "width " + std::to_string(width) + " must be a multiple of heads (" +
                               std::to_string(heads) + ")");
  need(positions != Positions::rotary || width / heads % 2 == 0,
       "positions: rotary needs an even width / heads, not " + std::to_string(width / heads));
  need(1 <= threads && threads <= 1024,
       "threads is " + std::to_string(threads) + "; it must lie between 1 and 1024");
  const std::vector<GptParameter> all = gpt_parameters(*this);
  for (const std::string& prefix : frozen) {
    need(std::any_of(all.begin(), all.end(),
                     [&](const GptParameter& p) { return p.spec.name.starts_with(prefix); }),
         "frozen: no parameter begins with '" + prefix + "'");
  }
}

std::vector<GptParameter> gpt_parameters(const GptOptions& options) {
  const std::size_t width = options.width;
  const std::size_t hidden = options.mlp_ratio * width;
  const std::size_t inner = options.activation == Activation::swiglu ? 2 * hidden : hidden;
  List list{options, {}};
  list.table("wte.weight", kWte, options.vocab);
  if (options.positions == Positions::learned) {
    list.table("wpe.weight", kWpe, options.context);
  }
  for (std::size_t layer = 0; layer < options.layers; ++layer) {
    const int unit = static_cast<int>(layer) + 1;
    const std::string h = "h." + std::to_string(layer) + ".";
    list.norm(unit, h + "ln_1", kNorm1Gain, kNorm1Bias);
    list.linear(unit, h + "attn.c_attn", {kAttnWeight, kAttnBias}, {width, 3 * width});
    list.linear(unit, h + "attn.c_proj", {kProjWeight, kProjBias}, {width, width});
    list.norm(unit, h + "ln_2", kNorm2Gain, kNorm2Bias);
    list.linear(unit, h + "mlp.c_fc", {kFcWeight, kFcBias}, {width, inner});
    list.linear(unit, h + "mlp.c_proj", {kOutWeight, kOutBias}, {hidden, width});
  }
  list.norm(0, "ln_f", kNormFGain, kNormFBias);
  if (!options.tied_head) list.table("lm_head.weight", kHead, options.vocab);
  return std::move(list.all);
}

}  // namespace thinwire
