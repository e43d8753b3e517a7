#include "optimizers/rules.h"

#include <charconv>

#include "optimizers/adamw.h"
#include "optimizers/dion2.h"
#include "optimizers/lion.h"
#include "optimizers/muon.h"
#include "optimizers/sgd.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

double as_written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double written = 0.0;
  std::from_chars(text, end, written);
  return written;
}

struct Reader {
  Settings& settings;
  const std::string& prefix;

  float number(const std::string& key, float fallback, double low, double high) const {
    return read_number(settings, prefix + key, fallback, low, high);
  }
  float momentum(float fallback) const { return number("momentum", fallback, 0.0, 1.0); }
  float beta(const std::string& key, float fallback) const {
    return number(key, fallback, 0.0, 0.999999);
  }
  AdamwRule::Options adamw(const RuleDefaults& defaults) const {
    AdamwRule::Options options;
    options.beta1 = beta("beta1", defaults.beta1);
    options.beta2 = beta("beta2", options.beta2);
    options.eps = number("eps", options.eps, 1e-20, 1.0);
    return options;
  }
  MuonRule::Options muon(const RuleDefaults& defaults) const {
    MuonRule::Options options;
    options.momentum = momentum(defaults.momentum);
    options.matrix_rate = number("matrix_rate", options.matrix_rate, 0.0, 1e6);
    options.rest = adamw(defaults);
    return options;
  }
};

std::unique_ptr<Rule> make(const Reader& read, const std::string& name,
                           const RuleDefaults& defaults) {
  if (name == "sgd") return std::make_unique<SgdRule>(read.momentum(defaults.momentum));
  if (name == "adamw") return std::make_unique<AdamwRule>(read.adamw(defaults));
  if (name == "muon") return std::make_unique<MuonRule>(read.muon(defaults));
  if (name == "dion2") {
    const float fraction = read.number("fraction", 0.25f, 1e-6, 1.0);
    return std::make_unique<Dion2Rule>(fraction, read.muon(defaults));
  }
  if (name == "lion") {
    LionRule::Options options;
    options.beta1 = read.beta("beta1", options.beta1);
    options.beta2 = read.beta("beta2", options.beta2);
    return std::make_unique<LionRule>(options);
  }
  throw UsageError("unknown rule '" + name + "'; known: adamw, dion2, lion, muon, sgd");
}

}  // namespace

std::vector<std::string> rule_names() { return {"adamw", "dion2", "lion", "muon", "sgd"}; }

std::unique_ptr<Rule> read_rule(Settings& settings, const std::string& name,
                                const std::string& prefix, RuleDefaults defaults) {
  std::unique_ptr<Rule> rule = make({settings, prefix}, name, defaults);
  rule->call_states(prefix);
  return rule;
}

float read_number(Settings& settings, std::string_view key, float fallback, double low,
                  double high) {
  return static_cast<float>(settings.number(key, as_written(fallback), low, high));
}

}  // namespace thinwire
