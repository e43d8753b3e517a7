#include "models/gpt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/aligned.h"
#include "models/counter_random.h"
#include "models/gpt_core.h"
#include "models/team.h"
#include "models/text.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

using Core = GptCore<float>;

// Slices of about this many tokens keep matrix products efficient and their operands in the L2
// cache.
constexpr std::size_t kSliceTokens = 512;

std::size_t value_count(const ParameterSpec& spec) {
  std::size_t count = 1;
  for (std::size_t extent : spec.shape) count *= extent;
  return count;
}

// How many floats of a slice's buffer a parameter takes: whole cache lines.
std::size_t padded_count(const ParameterSpec& spec) { return (value_count(spec) + 15) / 16 * 16; }

const GptOptions& validated(const GptOptions& options) {
  options.validate();
  return options;
}

const BatchOptions& validated(const BatchOptions& batch) {
  if (batch.parts == 0 || batch.part >= batch.parts) {
    throw UsageError("gpt: part " + std::to_string(batch.part) + " of " +
                     std::to_string(batch.parts) + " parts does not exist");
  }
  if (batch.global_batch == 0 || batch.global_batch % batch.parts != 0) {
    throw UsageError("gpt: global_batch " + std::to_string(batch.global_batch) +
                     " must be a multiple of the number of ranks (" + std::to_string(batch.parts) +
                     ")");
  }
  if (batch.micro_batches == 0 || batch.global_batch % (batch.parts * batch.micro_batches) != 0) {
    throw UsageError("gpt: global_batch " + std::to_string(batch.global_batch) +
                     " must be a multiple of ranks times micro-batches (" +
                     std::to_string(batch.parts) + " x " + std::to_string(batch.micro_batches) +
                     ")");
  }
  return batch;
}

}  // namespace

// The batch is cut in slices, a number that depends on the options alone. The team's threads take
// slices, and a unit's gradient is summed over slices in their order: the same bits for any team.
struct Gpt::Workspace {
  struct Slice {
    Core core;
    AlignedArray<float> outer;  // this slice's gradient of unit 0, parameter after parameter
    AlignedArray<float> block;  // of the block at hand
    std::vector<const std::uint8_t*> windows;
    double loss = 0.0;
  };

  Workspace(const GptOptions& options, const Text& words, std::size_t batch_size);

  // Starts a pass over windows whose first bytes are start(0) .. start(count - 1).
  void deal(std::size_t count, auto&& start);
  void forward(Units& units);
  // The loss over all windows, with the gradient of scale * loss made ready if `backward`.
  double head(Units& units, float scale, bool backward);
  void backward(Units& units);

  Core::Weights weights(const Units& units, const Units::Weights& lease, std::size_t unit) const;
  Core::Gradient gradient(const Slice& slice, std::size_t unit) const;
  void hand_over(Units& units, std::size_t unit);
  void each_slice(auto&& task) { team.run(slices.size(), std::ref(task)); }

  const Text& text;
  const std::size_t batch;  // windows of a pass
  std::vector<GptParameter> list;
  std::vector<std::vector<std::size_t>> members;  // of each unit: indices into list
  std::vector<Slice> slices;
  std::size_t capacity = 0;  // windows of the largest slice
  Team team;
};

namespace {

std::size_t slice_count(const GptOptions& options, std::size_t batch) {
  return std::clamp<std::size_t>(batch * options.context / kSliceTokens, 1, batch);
}

}  // namespace

Gpt::Workspace::Workspace(const GptOptions& options, const Text& words, std::size_t batch_size)
    : text(words),
      batch(batch_size),
      list(gpt_parameters(options)),
      members(options.layers + 1),
      team(std::min<std::size_t>(options.threads, slice_count(options, batch_size))) {
  std::vector<std::size_t> sizes(members.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    members[list[i].spec.unit].push_back(i);
    sizes[list[i].spec.unit] += padded_count(list[i].spec);
  }
  const std::size_t count = slice_count(options, batch);
  capacity = (batch + count - 1) / count;
  for (std::size_t i = 0; i < count; ++i) {
    slices.push_back({Core(options, capacity),
                      aligned_array<float>(sizes[0]),
                      aligned_array<float>(sizes[1]),
                      {}});
  }
}

void Gpt::Workspace::deal(std::size_t count, auto&& start) {
  for (std::size_t s = 0; s < slices.size(); ++s) {
    slices[s].windows.clear();
    for (std::size_t i = s * count / slices.size(); i < (s + 1) * count / slices.size(); ++i) {
      slices[s].windows.push_back(text.bytes().data() + start(i));
    }
    slices[s].core.start(slices[s].windows);
  }
}

Core::Weights Gpt::Workspace::weights(const Units& units, const Units::Weights& lease,
                                      std::size_t unit) const {
  Core::Weights result{};
  for (std::size_t i : members[unit]) {
    result[list[i].slot] = lease.at(units.layout().place(i)).data();
  }
  return result;
}

Core::Gradient Gpt::Workspace::gradient(const Slice& slice, std::size_t unit) const {
  Core::Gradient result{};
  float* next = (unit == 0 ? slice.outer : slice.block).get();
  for (std::size_t i : members[unit]) {
    if (list[i].spec.trainable) result[list[i].slot] = next;
    next += padded_count(list[i].spec);
  }
  return result;
}

// Leases the unit's gradient and writes the sum over slices into it.
void Gpt::Workspace::hand_over(Units& units, std::size_t unit) {
  const Units::Gradient lease = units.gradient(static_cast<int>(unit));
  std::size_t offset = 0;
  for (std::size_t i : members[unit]) {
    const std::size_t begin = offset;
    offset += padded_count(list[i].spec);
    if (!list[i].spec.trainable) continue;
    const Floats sum = lease.at(units.layout().place(i));
    for (const Slice& slice : slices) {
      const float* part = (unit == 0 ? slice.outer : slice.block).get() + begin;
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
    }
  }
}

void Gpt::Workspace::forward(Units& units) {
  {
    const Units::Weights lease = units.weights(0);
    const Core::Weights w = weights(units, lease, 0);
    each_slice([&](std::size_t s) { slices[s].core.embed(w); });
  }
  for (std::size_t unit = 1; unit < members.size(); ++unit) {
    const Units::Weights lease = units.weights(static_cast<int>(unit));
    const Core::Weights w = weights(units, lease, unit);
    each_slice([&](std::size_t s) { slices[s].core.block(unit - 1, w); });
  }
}

double Gpt::Workspace::head(Units& units, float scale, bool backward) {
  const Units::Weights lease = units.weights(0);
  const Core::Weights w = weights(units, lease, 0);
  each_slice([&](std::size_t s) {
    slices[s].loss = slices[s].core.loss(w, scale);
    if (backward) slices[s].core.head_backward(w, gradient(slices[s], 0));
  });
  double total = 0.0;
  for (const Slice& slice : slices) total += slice.loss;
  return total;
}

void Gpt::Workspace::backward(Units& units) {
  for (std::size_t unit = members.size() - 1; unit > 0; --unit) {
    {
      const Units::Weights lease = units.weights(static_cast<int>(unit));
      const Core::Weights w = weights(units, lease, unit);
      each_slice([&](std::size_t s) {
        slices[s].core.block_backward(unit - 1, w, gradient(slices[s], unit));
      });
    }
    hand_over(units, unit);
  }
  each_slice([&](std::size_t s) { slices[s].core.embed_backward(gradient(slices[s], 0)); });
  hand_over(units, 0);
}

void Gpt::set_part(std::size_t part) {
  BatchOptions batch = batch_;
  batch.part = part;
  batch_ = validated(batch);
}

Gpt::Gpt(GptOptions options, const Text& text, BatchOptions batch)
    : options_(validated(options)), batch_(validated(batch)) {
  text.require(options_.context);
  workspace_ = std::make_unique<Workspace>(
      options_, text, batch_.global_batch / (batch_.parts * batch_.micro_batches));
}

Gpt::~Gpt() = default;

std::vector<ParameterSpec> Gpt::parameters() const {
  std::vector<ParameterSpec> specs;
  for (const GptParameter& parameter : workspace_->list) specs.push_back(parameter.spec);
  return specs;
}

void Gpt::initialize(std::size_t index, std::uint64_t seed, Floats values) const {
  const Slot slot = workspace_->list.at(index).slot;
  if (slot == kNorm1Gain || slot == kNorm2Gain || slot == kNormFGain) {
    std::fill(values.begin(), values.end(), 1.0f);
    return;
  }
  if (workspace_->list[index].spec.shape.size() == 1) {
    std::fill(values.begin(), values.end(), 0.0f);
    return;
  }
  double deviation = 0.02;
  if (slot == kProjWeight || slot == kOutWeight) {
    deviation /= std::sqrt(2.0 * static_cast<double>(options_.layers));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(deviation) * random_normal(seed, index, i);
  }
}

float Gpt::loss_and_grad(Units& units, const Step& step) {
  Workspace& w = *workspace_;
  TW_CHECK(units.layout().parameters().size() == w.list.size());
  TW_CHECK(static_cast<std::size_t>(step.micros) == batch_.micro_batches);
  const std::size_t first = (batch_.part * batch_.micro_batches + step.micro) * w.batch;
  w.deal(w.batch, [&](std::size_t i) {
    return w.text.sample({batch_.seed, step.index, first + i}, options_.context);
  });
  const double targets = static_cast<double>(w.batch * options_.context);
  w.forward(units);
  const double loss = w.head(units, static_cast<float>(1.0 / targets), true);
  w.backward(units);
  return static_cast<float>(loss / targets);
}

double Gpt::held_out_loss(Units& units, std::size_t first, std::size_t count) {
  if (count == 0 || first + count > batch_.held_out_windows) {
    throw UsageError("gpt: held-out windows " + std::to_string(first) + " .. " +
                     std::to_string(first + count) + " do not lie among " +
                     std::to_string(batch_.held_out_windows));
  }
  Workspace& w = *workspace_;
  double total = 0.0;
  for (std::size_t done = 0; done < count;) {
    const std::size_t now = std::min(count - done, w.batch);
    w.deal(now, [&](std::size_t i) {
      return w.text.held_out({first + done + i, batch_.held_out_windows}, options_.context);
    });
    w.forward(units);
    total += w.head(units, 0.0f, false);
    done += now;
  }
  return total / static_cast<double>(count * options_.context);
}

}  // namespace thinwire
