// Rules by name, with their settings: for methods that take any rule as a part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optimizers/rule.h"
#include "thinwire/settings.h"

namespace thinwire {

std::vector<std::string> rule_names();

// What a method would rather have than a rule's own defaults.
struct RuleDefaults {
  float momentum = 0.9f;  // of sgd and muon
  float beta1 = 0.9f;     // of adamw, and of muon's rest
};

// Reads the settings of the rule `name`; their keys begin with `prefix`, as its states will. Throws
// UsageError for an unknown name.
std::unique_ptr<Rule> read_rule(Settings& settings, const std::string& name,
                                const std::string& prefix = "", RuleDefaults defaults = {});

// 0.999f as people write it, not as the double 0.9990000128746033.
float read_number(Settings& settings, std::string_view key, float fallback, double low,
                  double high);

}  // namespace thinwire
