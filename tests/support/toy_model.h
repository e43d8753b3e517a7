// A model whose gradient can be told in advance: 0.5 |x - target|^2 with a target that differs
// between sites and steps, over parameters of awkward shapes. Ranks of one site agree, so that
// results do not depend on how many there are (their mean is exact for powers of two).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "thinwire/model.h"

namespace thinwire::test {

struct ToyOptions {
  int site = 0;
  std::uint64_t seed = 1;
  float spread = 0.5f;                                  // how far sites' targets differ
  std::function<bool(std::uint64_t)> is_bad = {};       // steps in which the gradient is useless
  float bad = std::numeric_limits<float>::quiet_NaN();  // what it then consists of
  std::vector<ParameterSpec> parameters = {};           // empty: awkward_parameters()
};

// Matrices with edge tiles, a prime side, a cube, pooled vectors, a scalar, an empty parameter, a
// frozen one, and one ("idle") that never gets a gradient.
inline std::vector<ParameterSpec> awkward_parameters() {
  return {{"a", {130, 70}, 0},
          {"bias", {70}, 0},
          {"scalar", {}, 0},
          {"empty", {0, 5}, 0},
          {"frozen", {9, 3}, 0, false},
          {"prime", {127, 67}, 1},
          {"cube", {3, 4, 48}, 1},
          {"long", {8193}, 1},
          {"idle", {64, 64}, 1}};
}

class ToyModel final : public Model {
 public:
  explicit ToyModel(ToyOptions options) : options_(std::move(options)) {
    if (options_.parameters.empty()) options_.parameters = awkward_parameters();
  }

  std::vector<ParameterSpec> parameters() const override { return options_.parameters; }

  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = noise(seed * 1000 + index, i);
  }

  float loss_and_grad(Units& units, const Step& step) override {
    double loss = 0.0;
    for (int unit = 0; unit < units.layout().units(); ++unit) {
      const Units::Weights weights = units.weights(unit);
      const Units::Gradient gradient = units.gradient(unit);
      for (std::size_t p = 0; p < options_.parameters.size(); ++p) {
        const Place& place = units.layout().place(p);
        if (place.unit != unit || options_.parameters[p].name == "idle") continue;
        const ConstFloats x = weights.at(place);
        const Floats g = gradient.at(place);
        for (std::size_t i = 0; i < x.size(); ++i) {
          g[i] = x[i] - target(step.index, p, i);
          loss += 0.5 * g[i] * g[i];
        }
        if (p == 0 && options_.is_bad && options_.is_bad(step.index)) {
          std::fill(g.begin(), g.end(), options_.bad);
        }
      }
    }
    return static_cast<float>(loss);
  }

 private:
  // The common part is where all sites want to go.
  float target(std::uint64_t step, std::size_t parameter, std::size_t i) const {
    const std::uint64_t of_site =
        options_.seed * 7919 + options_.site * 104729 + step * 31 + parameter;
    return 3.0f * noise(77 + parameter, i) + options_.spread * noise(of_site, i);
  }

  ToyOptions options_;
};

}  // namespace thinwire::test
