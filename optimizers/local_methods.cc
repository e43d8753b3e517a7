// diloco, streaming_diloco, sparseloco, muloco and mural_local: one method with different defaults.
#include <algorithm>
#include <string>

#include "optimizers/catalog.h"
#include "optimizers/local_steps.h"
#include "optimizers/rules.h"

namespace thinwire {
namespace {

// A method's defaults: of LocalSteps, and of its two rules.
struct Preset {
  LocalSteps::Options options;
  std::string inner = "adamw";
  RuleDefaults inner_defaults = {};
  float outer_momentum = 0.0f;  // of sgd, the usual outer rule
};

std::unique_ptr<Optimizer> make(Settings& settings, Preset preset) {
  LocalSteps::Options& o = preset.options;
  o.delay = settings.integer("delay", 0, 0, 8);
  o.inner = read_rule(settings, settings.choice("inner", preset.inner, rule_names()), "",
                      preset.inner_defaults);
  o.outer = read_rule(settings, settings.choice("outer", "sgd", rule_names()), "outer_",
                      {.momentum = preset.outer_momentum});
  o.outer_lr = read_number(settings, "outer_lr", o.outer_lr, 1e-6, 100.0);
  o.weight_decay = read_number(settings, "weight_decay", o.weight_decay, 0.0, 10.0);
  o.clip = read_number(settings, "clip", o.clip, 0.0, 1e9);
  o.h = settings.integer("h", o.h, 1, 100000);
  if (!o.reduce) {
    o.fragments = settings.integer("fragments", o.by_tile ? o.h : o.fragments, 1, 100000);
    o.k = settings.integer("k", o.k, 1, 4096);
    const std::vector<std::string> codes{"plain", "sign", "two_bit", "e3m0"};
    o.coarse = static_cast<Coarse>(
        std::ranges::find(codes,
                          settings.choice("code", codes[static_cast<int>(o.coarse)], codes)) -
        codes.begin());
    o.feedback = settings.flag("feedback", o.feedback);
    o.decay = read_number(settings, "decay", o.decay, 0.0, 1.0);
    o.combine = settings.choice("combine", "sites", {"senders", "sites"}) == "sites"
                    ? Combine::sites
                    : Combine::senders;
    o.merge = settings.choice("merge", o.merge == Merge::drift ? "drift" : "alpha",
                              {"alpha", "drift"}) == "drift"
                  ? Merge::drift
                  : Merge::alpha;
  }
  o.alpha = read_number(settings, "alpha", o.alpha, 0.0, 1.0);
  return std::make_unique<LocalSteps>(o);
}

// Douillard et al. 2023; h is 500 there, for larger models.
Preset diloco() {
  return {.options = {.name = "diloco", .outer_lr = 0.7f, .h = 30, .reduce = true},
          .outer_momentum = 0.9f};
}

// Therien et al. 2025: DiLoCo with Muon inside.
Preset muloco() {
  Preset preset = diloco();
  preset.options.name = "muloco";
  preset.inner = "muon";
  preset.inner_defaults.momentum = 0.95f;
  preset.outer_momentum = 0.6f;
  return preset;
}

// Douillard et al. 2025: units in turn, FP4.
Preset streaming_diloco() {
  return {.options = {.name = "streaming_diloco",
                      .outer_lr = 0.7f,
                      .h = 30,
                      .fragments = 2,
                      .coarse = Coarse::e3m0,
                      .alpha = 0.5f},
          .outer_momentum = 0.9f};
}

// Sarfi et al. 2025: sparse and coarse, error feedback in place of the outer momentum.
Preset sparseloco() {
  return {.options = {.name = "sparseloco",
                      .outer_lr = 1.0f,
                      .h = 15,
                      .k = 64,
                      .coarse = Coarse::two_bit,
                      .feedback = true,
                      .decay = 0.95f}};
}

// Muon inside, tiles in turn, votes with a size.
Preset mural_local() {
  return {.options = {.name = "mural_local",
                      .suggested_lr = 1.6e-2f,
                      .outer_lr = 1.0f,
                      .h = 10,
                      .by_tile = true,
                      .k = 256,
                      .coarse = Coarse::sign,
                      .feedback = true,
                      .decay = 0.95f,
                      .basis = kernels::Basis::dct,
                      .merge = Merge::drift},
          .inner = "muon",
          .inner_defaults = {.momentum = 0.9f}};
}

}  // namespace

void add_local_methods(OptimizerCatalog& catalog) {
  const auto add = [&](const std::string& name, const std::string& about, Preset (*preset)()) {
    catalog.add(name, about, [preset](Settings& settings) { return make(settings, preset()); });
  };
  add("diloco", "DiLoCo: AdamW inside, dense differences every h steps", diloco);
  add("mural_local", "local Muon steps, tiles in turn, 1 bit and a scale: our own", mural_local);
  add("muloco", "MuLoCo: DiLoCo with Muon inside", muloco);
  add("sparseloco", "SparseLoCo: top-k, 2 bits and error feedback every h steps", sparseloco);
  add("streaming_diloco", "Streaming DiLoCo: units in turn, 4 bits a value", streaming_diloco);
}

}  // namespace thinwire
