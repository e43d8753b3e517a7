#include "models/gpt_device_internal.h"
#include "models/gpt_pass_internal.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

// A unit's gradient goes straight into its lease, which is zeroed. The loss is asked for when all
// else has been handed over: one wait for the device in a pass, if the units need none.
class PassOnDevice final : public GptPass {
 public:
  PassOnDevice(const GptOptions& options, std::span<const GptParameter> list, std::size_t batch)
      : list_(list),
        members_(members_of_units(list)),
        device_(options.device),
        core_(options, batch, options.device) {}

  double loss(Units& units, Windows windows) override {
    forward(units, windows);
    head(units, 0.0f, false);
    return core_.take_loss();
  }

  double loss_and_grad(Units& units, Windows windows, float scale) override {
    forward(units, windows);
    head(units, scale, true);
    for (std::size_t unit = members_.size() - 1; unit > 0; --unit) backward(units, unit);
    {
      const Units::Gradient lease = units.gradient(0);
      core_.outer_backward(gradient(units, lease, 0));
    }
    return core_.take_loss();
  }

 private:
  void forward(Units& units, Windows windows) {
    core_.start(windows);
    {
      const Units::Weights lease = units.weights(0);
      core_.embed(weights(units, lease, 0));
    }
    for (std::size_t unit = 1; unit < members_.size(); ++unit) {
      const Units::Weights lease = units.weights(static_cast<int>(unit));
      core_.block(unit - 1, weights(units, lease, unit));
    }
  }

  void head(Units& units, float scale, bool backward) {
    const Units::Weights lease = units.weights(0);
    const GptDevice::Weights w = weights(units, lease, 0);
    core_.loss(w, scale);
    if (backward) core_.head_backward(w);
  }

  // The gradient's lease begins before the block is worked on, and ends before that of the weights.
  void backward(Units& units, std::size_t unit) {
    const Units::Weights lease = units.weights(static_cast<int>(unit));
    const Units::Gradient into = units.gradient(static_cast<int>(unit));
    core_.block_backward(unit - 1, weights(units, lease, unit), gradient(units, into, unit));
  }

  GptDevice::Weights weights(const Units& units, const Units::Weights& lease,
                             std::size_t unit) const {
    GptDevice::Weights result{};
    for (std::size_t i : members_[unit]) {
      const ConstFloats values = lease.at(units.layout().place(i));
      check(values.device());
      result[list_[i].slot] = values.data();
    }
    return result;
  }

  void check(Device units) const {
    if (units == device_) return;
    throw UsageError("gpt: the model works on " + name_of(device_) + ", its units lie on " +
                     name_of(units) +
                     "; give GptOptions::device and TrainerOptions::device the same");
  }

  GptDevice::Gradient gradient(const Units& units, const Units::Gradient& lease,
                               std::size_t unit) const {
    GptDevice::Gradient result{};
    for (std::size_t i : members_[unit]) {
      if (!list_[i].spec.trainable) continue;
      const Floats values = lease.at(units.layout().place(i));
      check(values.device());
      result[list_[i].slot] = values.data();
    }
    return result;
  }

  const std::span<const GptParameter> list_;
  const std::vector<std::vector<std::size_t>> members_;  // of each unit: indices into list_
  const Device device_;
  GptDevice core_;
};

}  // namespace

std::unique_ptr<GptPass> make_pass_on_device(const GptOptions& options,
                                             std::span<const GptParameter> list,
                                             std::size_t batch) {
  return std::make_unique<PassOnDevice>(options, list, batch);
}

}  // namespace thinwire
