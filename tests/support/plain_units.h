// One rank's parameters and gradients in plain vectors: what a model needs of a site to be tested.
// It also writes down the leases, so that tests can say how a model takes them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/model.h"

namespace thinwire::test {

class PlainUnits final : public Units {
 public:
  explicit PlainUnits(const Model& model, std::uint64_t seed = 1)
      : layout_(model.parameters()), units_(layout_.units()) {
    for (int u = 0; u < layout_.units(); ++u) {
      units_[u].weights.resize(layout_.unit_size(u));
      units_[u].gradient.resize(layout_.unit_size(u));
      units_[u].frozen.resize(layout_.frozen_size(u));
      units_[u].discarded.resize(layout_.frozen_size(u));
    }
    for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
      model.initialize(i, seed, values(i));
    }
  }

  const Layout& layout() const override { return layout_; }
  Floats values(std::size_t parameter) {
    const Place& place = layout_.place(parameter);
    return Buffers<Floats>{units_[place.unit].weights, units_[place.unit].frozen}.at(place);
  }
  std::vector<float>& weights_of(int unit) { return units_[unit].weights; }
  std::vector<float>& gradient_of(int unit) { return units_[unit].gradient; }
  const std::vector<float>& discarded_of(int unit) const { return units_[unit].discarded; }
  std::vector<float> whole_gradient() const {
    std::vector<float> all;
    for (const Unit& unit : units_)
      all.insert(all.end(), unit.gradient.begin(), unit.gradient.end());
    return all;
  }

  // "w0 /w0 w1 /w1 ... g1 /g1": every take and end since the last call.
  std::string take_log() { return std::exchange(log_, {}); }
  int most_weights_at_once() const { return most_; }

 protected:
  Buffers<ConstFloats> take_weights(int unit) override {
    note("w", unit);
    most_ = std::max(most_, ++held_);
    return {units_.at(unit).weights, units_.at(unit).frozen};
  }
  Buffers<Floats> take_gradient(int unit) override {
    note("g", unit);
    std::fill(units_.at(unit).gradient.begin(), units_.at(unit).gradient.end(), 0.0f);
    return {units_.at(unit).gradient, units_.at(unit).discarded};
  }
  void end_weights(int unit) noexcept override {
    note("/w", unit);
    --held_;
  }
  void end_gradient(int unit) noexcept override { note("/g", unit); }

 private:
  struct Unit {
    std::vector<float> weights, gradient, frozen, discarded;
  };
  void note(const char* what, int unit) {
    log_ += (log_.empty() ? "" : " ") + std::string(what) + std::to_string(unit);
  }

  Layout layout_;
  std::vector<Unit> units_;
  std::string log_;
  int held_ = 0;
  int most_ = 0;
};

}  // namespace thinwire::test
