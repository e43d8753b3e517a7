#include "optimizers/demo.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "optimizers/arithmetic.h"
#include "optimizers/budget.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::size_t kTileValues = kTileSide * kTileSide;

Tiles tiles_of(const Shard& shard, const Piece& piece) {
  return shard.tiles().some(piece.first_tile, piece.tiles);
}

}  // namespace

Demo::Demo(Options options) : options_(std::move(options)) {
  const std::string who = options_.name + ": ";
  if (options_.k < 1 || options_.k > static_cast<int>(kTileValues)) {
    throw UsageError(who + "k must be from 1 to 4096, the values of a tile");
  }
  if (options_.bits != 1 && options_.bits != 32) throw UsageError(who + "bits must be 1 or 32");
  if (options_.bits == 1 && options_.follow == Follow::linear) {
    throw UsageError(who + "apply = linear needs bits = 32; a vote has no size");
  }
  if (options_.clip_to_median && options_.bits == 1) {
    throw UsageError(who + "clip_to_median needs bits = 32; with bits = 1 the vote itself bounds " +
                     "what one site can do");
  }
  if (!(options_.decay >= 0 && options_.decay <= 1)) {
    throw UsageError(who + "decay must be from 0 to 1");
  }
  if (!(options_.subtract > 0 && options_.subtract <= 1)) {
    throw UsageError(who + "subtract must be above 0 and at most 1");
  }
  if (options_.delay < 0 || options_.delay > 8) throw UsageError(who + "delay must be from 0 to 8");
}

Traits Demo::traits() const {
  Traits traits;
  traits.delay = options_.delay;
  traits.wants_time = options_.bits_per_second > 0.0;
  traits.suggested_lr = options_.suggested_lr;
  // The mean square of a block, and a rule's matrices, need all of it in one place.
  traits.whole_matrices = options_.follow == Follow::rms ||
                          (options_.signal != nullptr && options_.signal->whole_matrices());
  if (options_.signal != nullptr) traits.states = options_.signal->states(StateKind::own);
  traits.states.push_back({"residual", StateKind::own, StateExtent::coefficients});
  traits.states.push_back({"sent", StateKind::own, StateExtent::per_tile,
                           2 * static_cast<std::size_t>(options_.k) * (options_.delay + 1), true});
  traits.form = {.dense = false,
                 .value_bits = options_.bits,
                 .picks_a_tile = static_cast<std::uint16_t>(options_.k),
                 .scales = false};
  traits.on_device = options_.signal == nullptr || options_.signal->on_device();
  return traits;
}

// The exact values that saying took from the tiles in that step, one of the last delay + 1.
kernels::Lists Demo::lists(Floats sent, std::uint64_t step, std::size_t first_tile) const {
  const std::size_t k = options_.k;
  const std::size_t slots = options_.delay + 1;
  return {.floats = sent,
          .first = 2 * k * (first_tile * slots + step % slots),
          .stride = 2 * k * slots,
          .k = k};
}

Update Demo::extract(const Step& step, Shard& shard) {
  const float clip = clip_factor(step.norm, options_.clip);
  kernels::Extract how{.decay = options_.decay,
                       .scale = options_.rate_inside ? step.lr : 1.0f,
                       .subtract = options_.subtract,
                       .k = picks_now(step, shard),
                       .basis = options_.basis};
  const Floats residual = shard.state("residual");
  const Floats sent = shard.state("sent");
  kernels::Chosen chosen;
  if (options_.signal == nullptr) {
    how.scale *= clip;
    kernels::extract(shard.tiles(), shard.grad(), 0, how, residual, lists(sent, step.index, 0),
                     chosen);
    return said(std::move(chosen));
  }
  options_.signal->begin(shard);
  for (const Piece& piece : shard.pieces()) {
    FloatBuffer direction(piece.size, shard.device());
    options_.signal->move(shard, piece, part(shard.grad(), piece), direction,
                          {.lr = -1.0f, .scale = clip});
    kernels::extract(tiles_of(shard, piece), direction, piece.offset, how, residual,
                     lists(sent, step.index, piece.first_tile), chosen);
  }
  return said(std::move(chosen));
}

Update Demo::said(kernels::Chosen chosen) const {
  Update update;
  update.picks.value_bits = options_.bits;
  update.picks.counts = std::move(chosen.counts);
  update.picks.positions = std::move(chosen.positions);
  update.picks.codes.reserve(chosen.values.size());
  for (const float value : chosen.values) {
    update.picks.codes.push_back(options_.bits == 1 ? vote_code(value) : float_code(value));
  }
  return update;
}

// Before the first step has been timed, one coefficient a tile.
int Demo::picks_now(const Step& step, const Shard& shard) const {
  int k = options_.k;
  if (options_.bytes_per_step > 0.0) {
    k = affordable(shard.layout(), k, options_.bits, options_.bytes_per_step);
    if (k == 0) {
      throw UsageError(options_.name +
                       ": bytes_per_step does not pay for one coefficient a tile; " +
                       "give more, or take a method with local steps");
    }
  }
  if (options_.bits_per_second > 0.0) {
    const double bytes = options_.bits_per_second / 8.0 * step.compute_s;
    k = std::max(1, affordable(shard.layout(), k, options_.bits, bytes));
  }
  return k;
}

// In a linear step what was said has its size already, the rate included if that is inside.
Demo::Pace Demo::pace(const Step& step, float keep, float share) const {
  const bool sized = options_.follow == Follow::linear && options_.rate_inside;
  return {keep, sized ? share : step.lr * share};
}

// A block moves by z / rms(z). Sums of integers stay exact in double up to 2^53, and are rounded
// alike everywhere beyond.
void Demo::step_by_rms(const Shard& shard, const Piece& piece, double squares, ConstFloats z,
                       const Pace& pace, Floats x) const {
  const Block& block = shard.layout().blocks()[piece.block];
  // Values from outside may be finite and their squares not: such a block stays where it is.
  const double rms = std::sqrt(squares / static_cast<double>(piece.size));
  if (!std::isfinite(rms)) return kernels::scale(part(x, piece), pace.keep);
  const double rate = pace.rate * (block.hidden  ? options_.matrix_rate
                                   : block.table ? options_.table_rate
                                                 : options_.vector_rate);
  kernels::scale_add(part(x, piece), pace.keep, part(z, piece),
                     rms > 0.0 ? static_cast<float>(-rate / rms) : 0.0f);
}

// The gradient is used up: with rms its floats hold what was decoded.
Update Demo::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const Pace ours = pace(step, 1.0f - step.lr * options_.weight_decay, 1.0f);
  const SaidOfTiles said(TileVotes(heard, {.clip_to_median = options_.clip_to_median}),
                         shard.tiles().size(), options_.bits,
                         options_.combine == Combine::sites ? step.sites : 0);
  if (options_.follow == Follow::rms) {
    for (const Piece& piece : shard.pieces()) {
      const double squares =
          kernels::inverse_said(tiles_of(shard, piece), said.some(piece.first_tile, piece.tiles),
                                options_.basis, 0, shard.grad());
      step_by_rms(shard, piece, squares, shard.grad(), ours, shard.params());
    }
  } else {
    kernels::step_along(shard.tiles(), said.some(0, shard.tiles().size()),
                        {.keep = ours.keep,
                         .rate = ours.rate,
                         .sign = options_.follow == Follow::sign,
                         .basis = options_.basis},
                        0, shard.params());
  }
  // What was said `delay` steps ago has been heard or taken back. Its lists end here and not when
  // they are used again: a step whose gradient is skipped says nothing.
  const std::uint64_t delay = options_.delay;
  if (step.index >= delay) {
    kernels::clear(shard.tiles(), lists(shard.state("sent"), step.index - delay, 0));
  }
  return {};
}

void Demo::take_back(const Step& said, Shard& shard, const Update& unheard) {
  if (unheard.picks.positions.empty()) return;
  kernels::give_back(shard.tiles(), lists(shard.state("sent"), said.index, 0), unheard.picks.counts,
                     shard.state("residual"));
}

// What this site has not been heard with: its residual, and what it said in steps that are not
// over. The gradient of the last step is used up, and its place is free.
Floats Demo::gradient_point(const Step& step, Shard& shard) {
  if (options_.look_ahead == 0.0f) return shard.params();
  if (point_.size() != shard.params().size()) {
    point_ = FloatBuffer(shard.params(), shard.device());
  } else {
    copy(shard.params(), point_);
  }
  const Floats z = shard.grad();
  const Pace ours = pace(step, 1.0f, options_.look_ahead);
  for (const Piece& piece : shard.pieces()) {
    std::vector<kernels::Lists> said;
    for (int ago = 1; ago <= options_.delay && step.index >= static_cast<std::uint64_t>(ago);
         ++ago) {
      said.push_back(lists(shard.state("sent"), step.index - ago, piece.first_tile));
    }
    const double squares = kernels::inverse_owed(tiles_of(shard, piece), shard.state("residual"),
                                                 said, options_.basis, 0, z);
    step_ahead(shard, piece, squares, z, ours);
  }
  return point_;
}

void Demo::step_ahead(const Shard& shard, const Piece& piece, double squares, ConstFloats z,
                      const Pace& pace) {
  const Floats x = point_;
  switch (options_.follow) {
    case Follow::rms:
      return step_by_rms(shard, piece, squares, z, pace, x);
    case Follow::sign:
      return kernels::sign_step(part(x, piece), pace.keep, pace.rate, part(z, piece));
    case Follow::linear:
      return kernels::scale_add(part(x, piece), pace.keep, part(z, piece), -pace.rate);
  }
}

}  // namespace thinwire
