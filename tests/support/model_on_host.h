// A model that computes on the host, for a site whose units lie on a device: weights are brought to
// it, its gradients are brought back. So a test can have the gradients of a host's site, bit for
// bit, and everything behind them on the device.
#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/device.h"
#include "thinwire/model.h"

namespace thinwire::test {

class UnitsOnHost final : public Units {
 public:
  // The end of a lease may not throw; what failed there is thrown here.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  explicit UnitsOnHost(Units& there) : there_(there), held_(there.layout().units()) {}
  const Layout& layout() const override { return there_.layout(); }

 protected:
  Buffers<ConstFloats> take_weights(int unit) override {
    Held& held = held_[unit];
    const Weights lease = there_.weights(unit);
    fetch(lease, unit, held.trainable, held.frozen);
    return {held.trainable, held.frozen};
  }
  void end_weights(int) noexcept override {}
  Buffers<Floats> take_gradient(int unit) override {
    Held& held = held_[unit];
    held.lease = std::make_unique<Gradient>(there_.gradient(unit));
    held.gradient.assign(size_of(unit, true), 0.0f);
    held.discarded.assign(size_of(unit, false), 0.0f);
    return {held.gradient, held.discarded};
  }
  void end_gradient(int unit) noexcept override {
    Held& held = held_[unit];
    try {
      for_each_place(unit, [&](const Place& place) {
        if (place.trainable) {
          copy(ConstFloats(held.gradient).subspan(place.offset, place.size), held.lease->at(place));
        }
      });
    } catch (...) {
      failure_ = std::current_exception();
    }
    held.lease.reset();
  }

 private:
  struct Held {
    std::vector<float> trainable, frozen, gradient, discarded;
    std::unique_ptr<Gradient> lease;
  };

  template <class Visit>
  void for_each_place(int unit, const Visit& visit) const {
    for (std::size_t i = 0; i < layout().parameters().size(); ++i) {
      if (layout().place(i).unit == unit) visit(layout().place(i));
    }
  }
  // Of wrapped units the layout shows the whole buffer's places.
  std::size_t size_of(int unit, bool trainable) const {
    std::size_t end = 0;
    for_each_place(unit, [&](const Place& place) {
      if (place.trainable == trainable) end = std::max(end, place.offset + place.size);
    });
    return end;
  }
  void fetch(const Weights& lease, int unit, std::vector<float>& trainable,
             std::vector<float>& frozen) const {
    trainable.resize(size_of(unit, true));
    frozen.resize(size_of(unit, false));
    for_each_place(unit, [&](const Place& place) {
      std::vector<float>& to = place.trainable ? trainable : frozen;
      copy(lease.at(place), Floats(to).subspan(place.offset, place.size));
    });
  }

  Units& there_;
  std::vector<Held> held_;
  std::exception_ptr failure_;
};

class ModelOnHost final : public Model {
 public:
  explicit ModelOnHost(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  std::vector<ParameterSpec> parameters() const override { return model_->parameters(); }
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    model_->initialize(index, seed, values);
  }
  float loss_and_grad(Units& units, const Step& step) override {
    UnitsOnHost here(units);
    const float loss = model_->loss_and_grad(here, step);
    here.rethrow();
    return loss;
  }

 private:
  std::unique_ptr<Model> model_;
};

// The model itself, or for a device one that brings its units to the host.
inline std::unique_ptr<Model> model_for(Device device, std::unique_ptr<Model> model) {
  if (device.is_host()) return model;
  return std::make_unique<ModelOnHost>(std::move(model));
}

}  // namespace thinwire::test
