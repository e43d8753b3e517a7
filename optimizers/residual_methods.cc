// demo, distro, mural, topk (one method with different defaults) and signum.
#include <algorithm>
#include <map>
#include <string>

#include "optimizers/catalog.h"
#include "optimizers/distro.h"
#include "optimizers/mural.h"
#include "optimizers/rules.h"
#include "optimizers/signum.h"
#include "optimizers/topk.h"

namespace thinwire {
namespace {

int read_delay(Settings& settings) { return settings.integer("delay", 0, 0, 8); }

template <class Value>
Value read_word(Settings& settings, const char* key, Value fallback,
                const std::map<std::string, Value>& words) {
  std::vector<std::string> known;
  std::string usual;
  for (const auto& [word, value] : words) {
    known.push_back(word);
    if (value == fallback) usual = word;
  }
  return words.at(settings.choice(key, usual, known));
}

// Everything that the methods of this kind have in common, each with its own defaults.
std::unique_ptr<Optimizer> make(Settings& settings, Demo::Options options,
                                const std::string& signal, const RuleDefaults& defaults) {
  std::vector<std::string> signals = rule_names();
  signals.push_back("gradient");
  const std::string word = settings.choice("signal", signal, signals);
  options.signal = word == "gradient" ? nullptr : read_rule(settings, word, "", defaults);
  options.follow =
      read_word<Follow>(settings, "apply", options.follow,
                        {{"sign", Follow::sign}, {"rms", Follow::rms}, {"linear", Follow::linear}});
  options.basis = read_word<kernels::Basis>(settings, "transform", options.basis,
                                            {{"dct", kernels::Basis::dct},
                                             {"hadamard", kernels::Basis::hadamard},
                                             {"none", kernels::Basis::none}});
  options.combine = read_word<Combine>(settings, "combine", options.combine,
                                       {{"senders", Combine::senders}, {"sites", Combine::sites}});
  options.k = settings.integer("k", options.k, 1, 4096);
  options.bits = settings.choice("bits", std::to_string(options.bits), {"1", "32"}) == "1" ? 1 : 32;
  options.decay = read_number(settings, "decay", options.decay, 0.0, 1.0);
  options.subtract = read_number(settings, "subtract", options.subtract, 1e-6, 1.0);
  options.weight_decay = read_number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = read_number(settings, "clip", options.clip, 0.0, 1e9);
  options.rate_inside = settings.flag("rate_inside", options.rate_inside);
  options.matrix_rate = read_number(settings, "matrix_rate", options.matrix_rate, 0.0, 1e6);
  options.table_rate = read_number(settings, "table_rate", options.table_rate, 0.0, 1e6);
  options.vector_rate = read_number(settings, "vector_rate", options.vector_rate, 0.0, 1e6);
  options.clip_to_median = settings.integer("clip_to_median", 0, 0, 1) != 0;
  options.look_ahead = read_number(settings, "look_ahead", options.look_ahead, 0.0, 100.0);
  options.bytes_per_step = settings.number("bytes_per_step", 0.0, 0.0, 1e15);
  options.bits_per_second = settings.number("bits_per_second", 0.0, 0.0, 1e15);
  return std::make_unique<Demo>(options);
}

std::unique_ptr<Optimizer> make_demo(Settings& settings) {
  Demo::Options options;
  options.delay = read_delay(settings);
  return make(settings, options, "gradient", {});
}

std::unique_ptr<Optimizer> make_distro(Settings& settings) {
  return make(settings, distro(read_delay(settings)), "gradient", {});
}

std::unique_ptr<Optimizer> make_mural(Settings& settings) {
  return make(settings, mural(read_delay(settings)), "muon", kMuralSignal);
}

std::unique_ptr<Optimizer> make_topk(Settings& settings) {
  Demo::Options options = topk();
  options.delay = read_delay(settings);
  return make(settings, options, "gradient", {});
}

std::unique_ptr<Optimizer> make_signum(Settings& settings) {
  Signum::Options options;
  options.delay = read_delay(settings);
  options.momentum = read_number(settings, "momentum", options.momentum, 0.0, 0.999999);
  options.weight_decay = read_number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = read_number(settings, "clip", options.clip, 0.0, 1e9);
  return std::make_unique<Signum>(options);
}

}  // namespace

void add_residual_methods(OptimizerCatalog& catalog) {
  catalog.add("demo", "DeMo as published: DCT top-k of decoupled momentum, 32-bit values",
              make_demo);
  catalog.add("distro", "DisTrO: 1-bit votes on DCT coefficients; delay 1 hides the exchange",
              make_distro);
  catalog.add("mural", "Muon residual and look-ahead: 1-bit votes, our own; start here",
              make_mural);
  catalog.add("signum", "Signum with majority vote: one bit a parameter and step", make_signum);
  catalog.add("topk", "top-k of the values with error feedback", make_topk);
}

}  // namespace thinwire
