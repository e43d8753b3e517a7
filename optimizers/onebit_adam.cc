#include "optimizers/onebit_adam.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "optimizers/arithmetic.h"
#include "optimizers/tile_values.h"
#include "thinwire/coarse_kernels.h"
#include "thinwire/device.h"
#include "thinwire/kernels.h"
#include "thinwire/moment_kernels.h"

namespace thinwire {

Traits OnebitAdam::traits() const {
  return {.delay = options_.delay,
          .suggested_lr = 8e-3f,
          .states = {{"m", StateKind::replicated},
                     {"v", StateKind::replicated},
                     {"t", StateKind::replicated, StateExtent::whole, 1},
                     {"error", StateKind::own}},
          .form = {.dense = true, .value_bits = 1, .dense_whole = true},
          .on_device = true};
}

Update OnebitAdam::extract(const Step& step, Shard& shard) {
  const float scale = clip_factor(step.norm, options_.clip);
  const Floats g = shard.grad();
  if (step.index < static_cast<std::uint64_t>(options_.warmup)) {
    kernels::scale(g, scale);
    return dense_update(g);
  }
  // The gradient is used up.
  kernels::scale_add(g, (1.0f - options_.beta1) * scale, shard.state("m"), options_.beta1);
  const Floats error = shard.state("error");
  kernels::scale_add(error, 1.0f, g, 1.0f);
  kernels::Words words;
  kernels::say_coarse(shard.tiles(), Coarse::sign, error, words);
  return {.picks = picks_of(std::move(words), 1)};
}

Update OnebitAdam::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const bool warm = step.index - static_cast<std::uint64_t>(step.age) <
                    static_cast<std::uint64_t>(options_.warmup);
  // From outside may come what belongs in the other half of the run.
  const auto speakers = std::ranges::count_if(heard, [&](const Contribution& one) {
    return warm ? !one.update.dense.empty() : !one.update.picks.scales.empty();
  });
  if (speakers == 0) return {};
  if (warm) {
    follow_gradients({heard, speakers}, shard);
  } else {
    follow_votes({heard, speakers}, shard);
  }
  const auto steps = static_cast<std::uint64_t>(shard.state("t")[0]);
  const double first = warm ? 1.0 - power(options_.beta1, steps) : 1.0;
  kernels::moment_step(shard.params(), shard.state("m"), shard.state("v"),
                       {.keep = 1.0f - step.lr * options_.weight_decay,
                        .rate = static_cast<float>(step.lr / first),
                        .correction = static_cast<float>(1.0 - power(options_.beta2, steps)),
                        .eps = options_.eps});
  return {};
}

void OnebitAdam::follow_gradients(const Said& said, Shard& shard) const {
  const Floats mean = shard.grad();  // used up
  zero(mean);
  for (const Contribution& one : said.heard) {
    if (one.update.dense.empty()) continue;
    kernels::scale_add(mean, 1.0f, Near(one.update.dense, shard.device()), 1.0f);
  }
  kernels::scale(mean, 1.0f / static_cast<float>(said.speakers));
  shard.state("t")[0] += 1.0f;
  kernels::scale_add(shard.state("m"), options_.beta1, mean, 1.0f - options_.beta1);
  kernels::add_squares(shard.state("v"), options_.beta2, mean);
}

void OnebitAdam::follow_votes(const Said& said, Shard& shard) {
  const Floats mean = shard.state("m");
  zero(mean);
  for (const Contribution& one : said.heard) add_votes(shard, one.update.picks, mean);
  kernels::scale(mean, 1.0f / static_cast<float>(said.speakers));
}

void OnebitAdam::add_votes(const Shard& shard, const Picks& picks, Floats into) {
  kernels::add_coarse(shard.tiles(), Coarse::sign, words_of(picks), into);
}

void OnebitAdam::take_back(const Step&, Shard& shard, const Update& unheard) {
  add_votes(shard, unheard.picks, shard.state("error"));
}

}  // namespace thinwire
