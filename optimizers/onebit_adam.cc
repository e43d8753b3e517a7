#include "optimizers/onebit_adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "optimizers/arithmetic.h"
#include "optimizers/coarse.h"
#include "optimizers/tile_values.h"
#include "thinwire/kernels.h"

namespace thinwire {

Traits OnebitAdam::traits() const {
  return {.delay = options_.delay,
          .suggested_lr = 8e-3f,
          .states = {{"m", StateKind::replicated},
                     {"v", StateKind::replicated},
                     {"t", StateKind::replicated, StateExtent::whole, 1},
                     {"error", StateKind::own}},
          .form = {.dense = true, .value_bits = 1, .dense_whole = true}};
}

Update OnebitAdam::extract(const Step& step, Shard& shard) {
  const float scale = clip_factor(step.norm, options_.clip);
  const Floats g = shard.grad();
  if (step.index < static_cast<std::uint64_t>(options_.warmup)) {
    kernels::scale(g, scale);
    return dense_update(g);
  }
  const ConstFloats m = shard.state("m");
  const Floats error = shard.state("error");
  for (std::size_t i = 0; i < g.size(); ++i) {
    error[i] += options_.beta1 * m[i] + (1.0f - options_.beta1) * scale * g[i];
  }
  Update update{.picks = {.value_bits = 1}};
  for (const Tile& tile : shard.tiles()) say(tile, error, update.picks);
  return update;
}

void OnebitAdam::say(const Tile& tile, Floats error, Picks& picks) {
  std::vector<float> of_tile;
  for_each_value(tile, [&](std::uint16_t, std::size_t at) { of_tile.push_back(error[at]); });
  const float size = scale_of(Coarse::sign, of_tile);
  const bool finite = std::isfinite(size);
  picks.counts.push_back(finite ? static_cast<std::uint16_t>(of_tile.size()) : 0);
  if (finite && !of_tile.empty()) picks.scales.push_back(size);
  for_each_value(tile, [&](std::uint16_t position, std::size_t at) {
    if (!finite) {
      error[at] = 0.0f;  // beyond the floats nothing can be said or owed
      return;
    }
    const std::uint32_t code = vote_code(error[at]);
    picks.positions.push_back(position);
    picks.codes.push_back(code);
    error[at] -= decode(Coarse::sign, code, size);
  });
}

Update OnebitAdam::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const bool warm = step.index - static_cast<std::uint64_t>(step.age) <
                    static_cast<std::uint64_t>(options_.warmup);
  // From outside may come what belongs in the other half of the run.
  const auto speakers = std::ranges::count_if(heard, [&](const Contribution& one) {
    return warm ? !one.update.dense.empty() : !one.update.picks.scales.empty();
  });
  if (speakers == 0) return {};
  const Floats m = shard.state("m");
  const Floats v = shard.state("v");
  float& t = shard.state("t")[0];
  const Floats mean = shard.grad();  // used up
  std::fill(mean.begin(), mean.end(), 0.0f);
  if (warm) {
    for (const Contribution& one : heard) {
      if (!one.update.dense.empty()) kernels::scale_add(mean, 1.0f, one.update.dense, 1.0f);
    }
    kernels::scale(mean, 1.0f / static_cast<float>(speakers));
    t += 1.0f;
    kernels::scale_add(m, options_.beta1, mean, 1.0f - options_.beta1);
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = options_.beta2 * v[i] + (1.0f - options_.beta2) * (mean[i] * mean[i]);
    }
  } else {
    for (const Contribution& one : heard) add_votes(shard, one.update.picks, mean);
    kernels::scale(mean, 1.0f / static_cast<float>(speakers));
    std::copy(mean.begin(), mean.end(), m.begin());
  }
  const auto steps = static_cast<std::uint64_t>(t);
  const double first = warm ? 1.0 - power(options_.beta1, steps) : 1.0;
  const auto second = static_cast<float>(1.0 - power(options_.beta2, steps));
  const auto rate = static_cast<float>(step.lr / first);
  const float keep = 1.0f - step.lr * options_.weight_decay;
  const Floats x = shard.params();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float step_size = rate * m[i] / (std::sqrt(v[i] / second) + options_.eps);
    x[i] = keep * x[i] - (v[i] > 0.0f ? step_size : 0.0f);
  }
  return {};
}

void OnebitAdam::add_votes(const Shard& shard, const Picks& picks, Floats into) {
  if (picks.scales.empty()) return;
  add_picks(shard, picks, into, [&](std::uint32_t code, std::size_t spoken) {
    return decode(Coarse::sign, code, picks.scales[spoken]);
  });
}

void OnebitAdam::take_back(const Step&, Shard& shard, const Update& unheard) {
  add_votes(shard, unheard.picks, shard.state("error"));
}

}  // namespace thinwire
