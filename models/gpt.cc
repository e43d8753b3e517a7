#include "models/gpt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/counter_random.h"
#include "models/gpt_pass_internal.h"
#include "models/text.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

const GptOptions& validated(const GptOptions& options) {
  options.validate();
  require(options.device);
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

struct Gpt::Workspace {
  Workspace(const GptOptions& options, const Text& words, std::size_t windows)
      : text(words),
        batch(windows),
        list(gpt_parameters(options)),
        pass(options.device.is_host() ? make_pass_on_host(options, list, batch)
                                      : make_pass_on_device(options, list, batch)) {}

  // The windows whose first bytes are start(0) .. start(count - 1).
  GptPass::Windows deal(std::size_t count, auto&& start) {
    dealt.clear();
    for (std::size_t i = 0; i < count; ++i) dealt.push_back(text.bytes().data() + start(i));
    return dealt;
  }

  const Text& text;
  const std::size_t batch;  // windows of a pass
  const std::vector<GptParameter> list;
  const std::unique_ptr<GptPass> pass;
  std::vector<const std::uint8_t*> dealt;
};

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
  const GptPass::Windows windows = w.deal(w.batch, [&](std::size_t i) {
    return w.text.sample({batch_.seed, step.index, first + i}, options_.context);
  });
  const double targets = static_cast<double>(w.batch * options_.context);
  const double loss = w.pass->loss_and_grad(units, windows, static_cast<float>(1.0 / targets));
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
    total += w.pass->loss(units, w.deal(now, [&](std::size_t i) {
      return w.text.held_out({first + done + i, batch_.held_out_windows}, options_.context);
    }));
    done += now;
  }
  return total / static_cast<double>(count * options_.context);
}

}  // namespace thinwire
