#include "apps/plan_presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace thinwire::app {
namespace {

const std::string kAveragingMethod = "diloco:h=10:outer_lr=1:outer_momentum=0";

std::string name_of(const std::string& method) { return method.substr(0, method.find(':')); }

std::string rest_of(const std::string& method) {
  const std::size_t colon = method.find(':');
  return colon == std::string::npos ? "" : method.substr(colon);
}

bool knows(const OptimizerCatalog& catalog, const std::string& name) {
  const std::vector<std::string> names = catalog.names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

const PlanMethod* find(const Plan& plan, const std::string& label) {
  for (const PlanMethod& method : plan.methods) {
    if (method.label == label) return &method;
  }
  return nullptr;
}

// Around the rate that the method itself suggests, as far as it takes.
PlanMethod baseline(const Plan& plan, const OptimizerCatalog& catalog, const std::string& label) {
  PlanMethod method;
  method.label = label;
  method.method = expand_preset(label);
  method.extend = method.added = true;
  FlatConfig config = plan.sizes.front().config;
  config["run.methods"] = method.method;
  const float lr = resolve(config, catalog).methods.front().lr;
  method.lrs = {lr / 2, lr, lr * 2};
  return method;
}

// Baselines come first, in this order.
constexpr std::array kOrder{kAdamw, kMuon, kAveraging, kAlone};

std::size_t rank(const PlanMethod& method) {
  const auto found = std::find(kOrder.begin(), kOrder.end(), method.label);
  return static_cast<std::size_t>(found - kOrder.begin());
}

PlanMethod alone_like(const PlanMethod& adamw) {
  PlanMethod method = adamw;
  method.label = kAlone;
  method.alone = method.added = true;
  return method;
}

}  // namespace

std::string expand_preset(const std::string& method) {
  if (name_of(method) == kAlone) return kAdamw + rest_of(method);
  if (name_of(method) == kAveraging) return kAveragingMethod + rest_of(method);
  return method;
}

bool is_alone(const std::string& method) { return name_of(method) == kAlone; }

bool is_baseline(const std::string& label) {
  return std::find(kOrder.begin(), kOrder.end(), label) != kOrder.end();
}

void add_baselines(Plan& plan, const OptimizerCatalog& catalog) {
  std::vector<PlanMethod> added;
  const PlanMethod* listed = find(plan, kAdamw);
  PlanMethod adamw = listed != nullptr ? *listed : baseline(plan, catalog, kAdamw);
  if (listed == nullptr) {
    adamw.grid = {{"beta1", {"0.9", "0.8"}}};
    added.push_back(adamw);
  }
  for (const std::string label : {kMuon, kAveraging}) {
    if (find(plan, label) != nullptr) continue;
    const std::string name = name_of(expand_preset(label));
    if (knows(catalog, name)) {
      added.push_back(baseline(plan, catalog, label));
    } else {
      plan.notes.push_back(fmt::format(
          "The baseline '{}' is left out: this program has no method '{}'.", label, name));
    }
  }
  if (find(plan, kAlone) == nullptr) added.push_back(alone_like(adamw));
  plan.methods.insert(plan.methods.end(), added.begin(), added.end());
  std::stable_sort(plan.methods.begin(), plan.methods.end(),
                   [](const PlanMethod& a, const PlanMethod& b) { return rank(a) < rank(b); });
}

}  // namespace thinwire::app
