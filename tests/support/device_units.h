// One rank's parameters and gradients on a device, for models that compute there: PlainUnits,
// moved.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/device.h"
#include "thinwire/model.h"

namespace thinwire::test {

class DeviceUnits final : public Units {
 public:
  DeviceUnits(const Model& model, Device device, std::uint64_t seed = 1)
      : layout_(model.parameters()) {
    for (int u = 0; u < layout_.units(); ++u) {
      units_.push_back({FloatBuffer(layout_.unit_size(u), device),
                        FloatBuffer(layout_.unit_size(u), device),
                        FloatBuffer(layout_.frozen_size(u), device),
                        FloatBuffer(layout_.frozen_size(u), device)});
    }
    for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
      std::vector<float> values(layout_.place(i).size);
      model.initialize(i, seed, values);
      set(i, values);
    }
  }

  const Layout& layout() const override { return layout_; }
  void set(std::size_t parameter, ConstFloats values) {
    const Place& place = layout_.place(parameter);
    Unit& unit = units_.at(place.unit);
    copy(values, Buffers<Floats>{unit.weights, unit.frozen}.at(place));
  }
  std::vector<float> gradient(std::size_t parameter) const {
    const Place& place = layout_.place(parameter);
    return to_host(units_.at(place.unit).gradient.floats().subspan(place.offset, place.size));
  }
  std::vector<float> whole_gradient() const {
    std::vector<float> all;
    for (const Unit& unit : units_) {
      const std::vector<float> one = to_host(unit.gradient);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  bool touched_frozen_gradients() const {
    for (const Unit& unit : units_) {
      for (const float value : to_host(unit.discarded)) {
        if (value != 0.0f) return true;
      }
    }
    return false;
  }
  std::string take_log() { return std::exchange(log_, {}); }
  void at_each_take(std::function<void()> look) { look_ = std::move(look); }

 protected:
  Buffers<ConstFloats> take_weights(int unit) override {
    note("w", unit);
    return {units_.at(unit).weights, units_.at(unit).frozen};
  }
  Buffers<Floats> take_gradient(int unit) override {
    note("g", unit);
    zero(units_.at(unit).gradient);
    return {units_.at(unit).gradient, units_.at(unit).discarded};
  }
  void end_weights(int unit) noexcept override { note("/w", unit); }
  void end_gradient(int unit) noexcept override { note("/g", unit); }

 private:
  struct Unit {
    FloatBuffer weights, gradient, frozen, discarded;
  };
  void note(const char* what, int unit) {
    if (!log_.empty()) log_ += ' ';
    log_.append(what).append(std::to_string(unit));
    if (look_ && what[0] != '/') look_();
  }

  Layout layout_;
  std::vector<Unit> units_;
  std::string log_;
  std::function<void()> look_;
};

}  // namespace thinwire::test
