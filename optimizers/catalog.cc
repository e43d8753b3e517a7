#include "optimizers/catalog.h"

#include <charconv>
#include <memory>

#include "optimizers/adamw.h"
#include "optimizers/demo.h"
#include "optimizers/sgd.h"

namespace thinwire {
namespace {

// 0.999f as the double 0.999, as people write it, not as 0.9990000128746033.
double as_written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double written = 0.0;
  std::from_chars(text, end, written);
  return written;
}

float number(Settings& settings, std::string_view key, float fallback, double low, double high) {
  return static_cast<float>(settings.number(key, as_written(fallback), low, high));
}

std::unique_ptr<Optimizer> make_adamw(Settings& settings) {
  Adamw::Options options;
  options.beta1 = number(settings, "beta1", options.beta1, 0.0, 0.999999);
  options.beta2 = number(settings, "beta2", options.beta2, 0.0, 0.999999);
  options.eps = number(settings, "eps", options.eps, 1e-20, 1.0);
  options.weight_decay = number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = number(settings, "clip", options.clip, 0.0, 1e9);
  return std::make_unique<Adamw>(options);
}

std::unique_ptr<Optimizer> make_sgd(Settings& settings) {
  return std::make_unique<Sgd>(Sgd::Options{number(settings, "momentum", 0.9f, 0.0, 1.0)});
}

std::unique_ptr<Optimizer> make_demo(Settings& settings, Demo::Options options) {
  options.k = settings.integer("k", options.k, 1, 4096);
  options.bits = settings.choice("bits", std::to_string(options.bits), {"1", "32"}) == "1" ? 1 : 32;
  options.decay = number(settings, "decay", options.decay, 0.0, 0.9999999);
  options.weight_decay = number(settings, "weight_decay", options.weight_decay, 0.0, 10.0);
  options.clip = number(settings, "clip", options.clip, 0.0, 1e9);
  options.combine = settings.choice("combine", "senders", {"senders", "sites"}) == "sites"
                        ? Combine::sites
                        : Combine::senders;
  options.clip_to_median = settings.integer("clip_to_median", 0, 0, 1) != 0;
  options.look_ahead = number(settings, "look_ahead", options.look_ahead, 0.0, 100.0);
  return std::make_unique<Demo>(options);
}

}  // namespace

OptimizerCatalog optimizer_catalog() {
  OptimizerCatalog catalog("optimizer");
  catalog.add("adamw", "AdamW on the all-reduced mean gradient: the baseline", make_adamw);
  catalog.add("sgd", "SGD with Nesterov momentum on the all-reduced mean gradient", make_sgd);
  catalog.add("demo", "DeMo as published: DCT top-k of decoupled momentum, 32-bit values",
              [](Settings& settings) {
                Demo::Options options;
                options.delay = settings.integer("delay", 0, 0, 8);
                return make_demo(settings, options);
              });
  catalog.add("distro", "DisTrO: 1-bit votes on DCT coefficients; delay 1 hides the exchange",
              [](Settings& settings) {
                return make_demo(settings, Demo::distro(settings.integer("delay", 0, 0, 8)));
              });
  return catalog;
}

}  // namespace thinwire
