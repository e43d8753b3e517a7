#include <algorithm>
#include <functional>

#include "models/aligned.h"
#include "models/gpt_pass_internal.h"
#include "models/team.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

using Core = GptCore<float>;

// Slices of about this many tokens keep matrix products efficient and their operands in the L2
// cache.
constexpr std::size_t kSliceTokens = 512;

// How many floats of a slice's buffer a parameter takes: whole cache lines.
std::size_t padded_count(const ParameterSpec& spec) {
  std::size_t count = 1;
  for (std::size_t extent : spec.shape) count *= extent;
  return (count + 15) / 16 * 16;
}

std::size_t slice_count(const GptOptions& options, std::size_t batch) {
  return std::clamp<std::size_t>(batch * options.context / kSliceTokens, 1, batch);
}

// The batch is cut in slices, a number that depends on the options alone. The team's threads take
// slices, and a unit's gradient is summed over slices in their order: the same bits for any team.
class PassOnHost final : public GptPass {
 public:
  PassOnHost(const GptOptions& options, std::span<const GptParameter> list, std::size_t batch);

  double loss(Units& units, Windows windows) override {
    deal(windows);
    forward(units);
    return head(units, 0.0f, false);
  }
  double loss_and_grad(Units& units, Windows windows, float scale) override {
    deal(windows);
    forward(units);
    const double sum = head(units, scale, true);
    backward(units);
    return sum;
  }

 private:
  struct Slice {
    Core core;
    AlignedArray<float> outer;  // this slice's gradient of unit 0, parameter after parameter
    AlignedArray<float> block;  // of the block at hand
    double loss = 0.0;
  };

  void deal(Windows windows);
  void forward(Units& units);
  // The loss over all windows, with the gradient of scale * loss made ready if `backward`.
  double head(Units& units, float scale, bool backward);
  void backward(Units& units);

  Core::Weights weights(const Units& units, const Units::Weights& lease, std::size_t unit) const;
  Core::Gradient gradient(const Slice& slice, std::size_t unit) const;
  void hand_over(Units& units, std::size_t unit);
  void each_slice(auto&& task) { team_.run(slices_.size(), std::ref(task)); }

  const std::span<const GptParameter> list_;
  const std::vector<std::vector<std::size_t>> members_;  // of each unit: indices into list_
  std::vector<Slice> slices_;
  Team team_;
};

PassOnHost::PassOnHost(const GptOptions& options, std::span<const GptParameter> list,
                       std::size_t batch)
    : list_(list),
      members_(members_of_units(list)),
      team_(std::min<std::size_t>(options.threads, slice_count(options, batch))) {
  std::vector<std::size_t> sizes(members_.size());
  for (const GptParameter& one : list_) sizes[one.spec.unit] += padded_count(one.spec);
  const std::size_t count = slice_count(options, batch);
  const std::size_t capacity = (batch + count - 1) / count;  // windows of the largest slice
  for (std::size_t i = 0; i < count; ++i) {
    slices_.push_back(
        {Core(options, capacity), aligned_array<float>(sizes[0]), aligned_array<float>(sizes[1])});
  }
}

void PassOnHost::deal(Windows windows) {
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    const std::size_t begin = s * windows.size() / slices_.size();
    const std::size_t end = (s + 1) * windows.size() / slices_.size();
    slices_[s].core.start(windows.subspan(begin, end - begin));
  }
}

Core::Weights PassOnHost::weights(const Units& units, const Units::Weights& lease,
                                  std::size_t unit) const {
  Core::Weights result{};
  for (std::size_t i : members_[unit]) {
    const ConstFloats values = lease.at(units.layout().place(i));
    TW_CHECK(values.on_host());
    result[list_[i].slot] = values.data();
  }
  return result;
}

Core::Gradient PassOnHost::gradient(const Slice& slice, std::size_t unit) const {
  Core::Gradient result{};
  float* next = (unit == 0 ? slice.outer : slice.block).get();
  for (std::size_t i : members_[unit]) {
    if (list_[i].spec.trainable) result[list_[i].slot] = next;
    next += padded_count(list_[i].spec);
  }
  return result;
}

// Leases the unit's gradient and writes the sum over slices into it.
void PassOnHost::hand_over(Units& units, std::size_t unit) {
  const Units::Gradient lease = units.gradient(static_cast<int>(unit));
  std::size_t offset = 0;
  for (std::size_t i : members_[unit]) {
    const std::size_t begin = offset;
    offset += padded_count(list_[i].spec);
    if (!list_[i].spec.trainable) continue;
    const Floats sum = lease.at(units.layout().place(i));
    for (const Slice& slice : slices_) {
      const float* part = (unit == 0 ? slice.outer : slice.block).get() + begin;
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
    }
  }
}

void PassOnHost::forward(Units& units) {
  {
    const Units::Weights lease = units.weights(0);
    const Core::Weights w = weights(units, lease, 0);
    each_slice([&](std::size_t s) { slices_[s].core.embed(w); });
  }
  for (std::size_t unit = 1; unit < members_.size(); ++unit) {
    const Units::Weights lease = units.weights(static_cast<int>(unit));
    const Core::Weights w = weights(units, lease, unit);
    each_slice([&](std::size_t s) { slices_[s].core.block(unit - 1, w); });
  }
}

double PassOnHost::head(Units& units, float scale, bool backward) {
  const Units::Weights lease = units.weights(0);
  const Core::Weights w = weights(units, lease, 0);
  each_slice([&](std::size_t s) {
    slices_[s].loss = slices_[s].core.loss(w, scale);
    if (backward) slices_[s].core.head_backward(w, gradient(slices_[s], 0));
  });
  double total = 0.0;
  for (const Slice& slice : slices_) total += slice.loss;
  return total;
}

void PassOnHost::backward(Units& units) {
  for (std::size_t unit = members_.size() - 1; unit > 0; --unit) {
    {
      const Units::Weights lease = units.weights(static_cast<int>(unit));
      const Core::Weights w = weights(units, lease, unit);
      each_slice([&](std::size_t s) {
        slices_[s].core.block_backward(unit - 1, w, gradient(slices_[s], unit));
      });
    }
    hand_over(units, unit);
  }
  each_slice([&](std::size_t s) { slices_[s].core.embed_backward(gradient(slices_[s], 0)); });
  hand_over(units, 0);
}

}  // namespace

std::vector<std::vector<std::size_t>> members_of_units(std::span<const GptParameter> list) {
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto unit = static_cast<std::size_t>(list[i].spec.unit);
    if (members.size() <= unit) members.resize(unit + 1);
    members[unit].push_back(i);
  }
  return members;
}

std::unique_ptr<GptPass> make_pass_on_host(const GptOptions& options,
                                           std::span<const GptParameter> list, std::size_t batch) {
  return std::make_unique<PassOnHost>(options, list, batch);
}

}  // namespace thinwire
