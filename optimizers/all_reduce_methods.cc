// adamw, dion2, lion, muon and sgd: rules on the all-reduced mean gradient.
#include "optimizers/all_reduce.h"
#include "optimizers/catalog.h"
#include "optimizers/rules.h"

namespace thinwire {
namespace {

OptimizerCatalog::Factory make(const std::string& rule, float lr, float decay, float clip) {
  return [=](Settings& settings) -> std::unique_ptr<Optimizer> {
    AllReduce::Options options{.name = rule, .suggested_lr = lr};
    options.weight_decay = read_number(settings, "weight_decay", decay, 0.0, 10.0);
    options.clip = read_number(settings, "clip", clip, 0.0, 1e9);
    const RuleDefaults defaults{.momentum = rule == "sgd" ? 0.9f : 0.95f};
    return std::make_unique<AllReduce>(options, read_rule(settings, rule, "", defaults));
  };
}

}  // namespace

void add_all_reduce_methods(OptimizerCatalog& catalog) {
  const auto add = [&](const std::string& rule, const std::string& about, float lr, float decay,
                       float clip) { catalog.add(rule, about, make(rule, lr, decay, clip)); };
  add("adamw", "AdamW on the all-reduced mean gradient: the baseline", 8e-3f, 0.1f, 1.0f);
  add("dion2", "Dion2, all-reduced: Muon on the rows with most momentum", 8e-3f, 0.1f, 1.0f);
  add("lion", "Lion on the all-reduced mean gradient", 1e-3f, 0.1f, 1.0f);
  add("muon", "Muon on the all-reduced mean gradient: the strongest baseline", 8e-3f, 0.1f, 1.0f);
  add("sgd", "SGD with Nesterov momentum on the all-reduced mean gradient", 0.1f, 0.0f, 0.0f);
}

}  // namespace thinwire
