// onebit_adam and powersgd.
#include "optimizers/catalog.h"
#include "optimizers/onebit_adam.h"
#include "optimizers/power_sgd.h"
#include "optimizers/rules.h"

namespace thinwire {
namespace {

std::unique_ptr<Optimizer> make_onebit_adam(Settings& settings) {
  OnebitAdam::Options options;
  options.delay = settings.integer("delay", 0, 0, 8);
  options.warmup = settings.integer("warmup", options.warmup, 1, 1'000'000'000);
  options.beta1 = read_number(settings, "beta1", options.beta1, 0.0, 0.999999);
  options.beta2 = read_number(settings, "beta2", options.beta2, 0.0, 0.999999);
  options.eps = read_number(settings, "eps", options.eps, 1e-20, 1.0);
  options.weight_decay = read_number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = read_number(settings, "clip", options.clip, 0.0, 1e9);
  return std::make_unique<OnebitAdam>(options);
}

std::unique_ptr<Optimizer> make_powersgd(Settings& settings) {
  PowerSgd::Options options;
  options.rank = settings.integer("rank", options.rank, 1, 64);
  options.min_saving = read_number(settings, "min_saving", options.min_saving, 0.0, 1e6);
  options.weight_decay = read_number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = read_number(settings, "clip", options.clip, 0.0, 1e9);
  options.rule = read_rule(settings, settings.choice("rule", "sgd", rule_names()));
  return std::make_unique<PowerSgd>(options);
}

}  // namespace

void add_other_methods(OptimizerCatalog& catalog) {
  catalog.add("onebit_adam", "1-bit Adam: momentum in one bit after a dense warm-up",
              make_onebit_adam);
  catalog.add("powersgd", "PowerSGD: low-rank gradients with error feedback, two exchanges",
              make_powersgd);
}

}  // namespace thinwire
