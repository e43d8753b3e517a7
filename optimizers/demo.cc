#include "optimizers/demo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimizers/arithmetic.h"
#include "optimizers/budget.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::size_t kTileValues = kTileSide * kTileSide;

// States may come from a file: a position that is none is no place in the tile.
std::optional<std::size_t> place(float position, std::size_t coefficients) {
  if (!(position >= 0.0f && position < static_cast<float>(coefficients))) return std::nullopt;
  return static_cast<std::size_t>(position);
}

Floats coefficients(const Tile& tile, Floats state) {
  return state.subspan(tile.coefficients, tile.height * tile.width);
}

// Of the tile's valid values, row by row.
double sum_squares(const Tile& tile, ConstFloats values) {
  double sum = 0.0;
  for (std::size_t row = 0; row < tile.rows + (tile.tail > 0 ? 1 : 0); ++row) {
    const std::size_t cols = row < tile.rows ? tile.cols : tile.tail;
    sum += kernels::sum_squares(values.subspan(tile.offset + row * tile.stride, cols));
  }
  return sum;
}

// The same tile in a buffer that begins with the piece.
Tile within(Tile tile, const Piece& piece) {
  tile.offset -= piece.offset;
  return tile;
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
  return traits;
}

Demo::Slot Demo::slot(Floats sent, std::size_t tile, std::uint64_t step) const {
  const std::size_t k = options_.k;
  const std::size_t slots = options_.delay + 1;
  const std::size_t begin = 2 * k * (tile * slots + step % slots);
  return {sent.subspan(begin, k), sent.subspan(begin + k, k)};
}

Update Demo::extract(const Step& step, Shard& shard) {
  const float clip = clip_factor(step.norm, options_.clip);
  const float rate = options_.rate_inside ? step.lr : 1.0f;
  const int k = picks_now(step, shard);
  const Floats residual = shard.state("residual");
  Update update;
  update.picks.value_bits = options_.bits;
  update.picks.counts.reserve(shard.tiles().size());
  if (options_.signal != nullptr) options_.signal->begin(shard);
  std::vector<float> direction;
  for (const Piece& piece : shard.pieces()) {
    if (options_.signal != nullptr) {
      direction.assign(piece.size, 0.0f);
      options_.signal->move(shard, piece, part(shard.grad(), piece), direction,
                            {.lr = -1.0f, .scale = clip});
    }
    for (std::size_t i = piece.first_tile; i < piece.first_tile + piece.tiles; ++i) {
      const Tile& tile = shard.tiles()[i];
      const Floats of_tile = coefficients(tile, residual);
      if (options_.signal != nullptr) {
        kernels::fold(within(tile, piece), direction, options_.decay, rate, of_tile,
                      options_.basis);
      } else {
        kernels::fold(tile, shard.grad(), options_.decay, rate * clip, of_tile, options_.basis);
      }
      say(step, shard, i, k, update.picks);
    }
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

// What is said is no longer owed; its exact value is kept until the round is known to be closed.
void Demo::say(const Step& step, Shard& shard, std::size_t index, int k, Picks& picks) const {
  std::array<std::uint16_t, kTileValues> positions;
  const Floats of_tile = coefficients(shard.tiles()[index], shard.state("residual"));
  const std::size_t count = kernels::top_k(of_tile, k, positions.data());
  picks.counts.push_back(static_cast<std::uint16_t>(count));
  const Slot said = slot(shard.state("sent"), index, step.index);
  for (std::size_t pick = 0; pick < count; ++pick) {
    const std::uint16_t position = positions[pick];
    const float value = of_tile[position];
    const float taken = options_.subtract * value;
    of_tile[position] = value - taken;
    picks.positions.push_back(position);
    picks.codes.push_back(options_.bits == 1 ? vote_code(value) : float_code(value));
    said.positions[pick] = position;
    said.values[pick] = taken;
  }
  if (count < said.values.size()) said.values[count] = 0.0f;
}

// z at the tile's valid values is what the sites said; returns the sum of its squares, for rms.
double Demo::decode(const Tile& tile, TileVotes& votes, int divisor, Floats z) const {
  votes.next_tile();
  if (votes.empty()) {
    const std::array<float, 0> nothing{};
    kernels::inverse_sparse(tile, {{}, nothing}, z, options_.basis);
    return 0.0;
  }
  if (options_.bits == 32) {
    kernels::inverse_sparse(tile, {votes.positions(), votes.means(divisor)}, z, options_.basis);
    return options_.follow == Follow::rms ? sum_squares(tile, z) : 0.0;
  }
  const std::span<const std::int32_t> weights = votes.vote_means(divisor);
  if (options_.follow == Follow::rms) {
    return static_cast<double>(
        kernels::inverse_votes_amplitude(tile, votes.positions(), weights, z, options_.basis));
  }
  kernels::inverse_votes(tile, votes.positions(), weights, z, options_.basis);
  return 0.0;
}

// In a linear step what was said has its size already, the rate included if that is inside.
Demo::Pace Demo::pace(const Step& step, float keep, float share) const {
  const bool sized = options_.follow == Follow::linear && options_.rate_inside;
  return {keep, sized ? share : step.lr * share};
}

// x moves by z, which `decode` fills in tile by tile, a row of tiles at a time while it is at hand.
// The sums of integers stay exact in double up to 2^53, and are rounded alike everywhere beyond.
template <class Decode>
void Demo::follow(const Shard& shard, const Piece& piece, Floats x, Floats z, const Pace& pace,
                  Decode decode) const {
  const Block& block = shard.layout().blocks()[piece.block];
  const std::size_t row_floats = block.tile_height * block.cols;
  const std::size_t row_tiles = block.grid_cols();
  double squares = 0.0;
  for (std::size_t row = 0; row * row_tiles < piece.tiles; ++row) {
    for (std::size_t i = 0; i < row_tiles; ++i) {
      squares += decode(piece.first_tile + row * row_tiles + i);
    }
    const std::size_t begin = row * row_floats;
    const std::size_t size = std::min(row_floats, piece.size - begin);
    const Floats of_x = x.subspan(piece.offset + begin, size);
    const Floats of_z = z.subspan(piece.offset + begin, size);
    if (options_.follow == Follow::sign) kernels::sign_step(of_x, pace.keep, pace.rate, of_z);
    if (options_.follow == Follow::linear) {
      kernels::scale_add(of_x, pace.keep, of_z, -pace.rate);
    }
  }
  if (options_.follow != Follow::rms) return;
  // Values from outside may be finite and their squares not: such a block stays where it is.
  const double rms = std::sqrt(squares / static_cast<double>(piece.size));
  if (!std::isfinite(rms)) return kernels::scale(part(x, piece), pace.keep);
  const double rate = pace.rate * (block.hidden  ? options_.matrix_rate
                                   : block.table ? options_.table_rate
                                                 : options_.vector_rate);
  kernels::scale_add(part(x, piece), pace.keep, part(z, piece),
                     rms > 0.0 ? static_cast<float>(-rate / rms) : 0.0f);
}

// The gradient is used up: its floats hold what was decoded.
Update Demo::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const Pace ours = pace(step, 1.0f - step.lr * options_.weight_decay, 1.0f);
  const int divisor = options_.combine == Combine::sites ? step.sites : 0;
  const Floats z = shard.grad();
  TileVotes votes(heard, {.clip_to_median = options_.clip_to_median});
  for (const Piece& piece : shard.pieces()) {
    follow(shard, piece, shard.params(), z, ours,
           [&](std::size_t tile) { return decode(shard.tiles()[tile], votes, divisor, z); });
  }
  // What was said `delay` steps ago has been heard or taken back. Its lists end here and not when
  // the slot is used again: a step whose gradient is skipped says nothing.
  const std::uint64_t delay = options_.delay;
  const Floats sent = shard.state("sent");
  for (std::size_t i = 0; i < shard.tiles().size() && step.index >= delay; ++i) {
    slot(sent, i, step.index - delay).values[0] = 0.0f;
  }
  return {};
}

void Demo::take_back(const Step& said, Shard& shard, const Update& unheard) {
  if (unheard.picks.positions.empty()) return;
  const Floats residual = shard.state("residual");
  const Floats sent = shard.state("sent");
  for (std::size_t i = 0; i < shard.tiles().size(); ++i) {
    const Floats of_tile = coefficients(shard.tiles()[i], residual);
    const Slot owed = slot(sent, i, said.index);
    for (std::size_t pick = 0; pick < unheard.picks.counts[i]; ++pick) {
      if (const auto at = place(owed.positions[pick], of_tile.size()))
        of_tile[*at] += owed.values[pick];
    }
  }
}

// z at the tile's valid values is what this site has not been heard with.
double Demo::decode_owed(const Step& step, Shard& shard, std::size_t index, Floats z) const {
  const Tile& tile = shard.tiles()[index];
  const Floats of_tile = coefficients(tile, shard.state("residual"));
  std::array<float, kTileValues> owed;
  std::copy(of_tile.begin(), of_tile.end(), owed.begin());
  for (int ago = 1; ago <= options_.delay && step.index >= static_cast<std::uint64_t>(ago); ++ago) {
    const Slot said = slot(shard.state("sent"), index, step.index - ago);
    for (int pick = 0; pick < options_.k && said.values[pick] != 0.0f; ++pick) {
      if (const auto at = place(said.positions[pick], of_tile.size())) {
        owed[*at] += said.values[pick];
      }
    }
  }
  kernels::inverse_fast(tile, ConstFloats(owed).first(of_tile.size()), z, options_.basis);
  return options_.follow == Follow::rms ? sum_squares(tile, z) : 0.0;
}

// The gradient of the last step is used up, and its place is free.
Floats Demo::gradient_point(const Step& step, Shard& shard) {
  if (options_.look_ahead == 0.0f) return shard.params();
  point_.assign(shard.params().begin(), shard.params().end());
  const Floats point = point_;
  const Floats z = shard.grad();
  for (const Piece& piece : shard.pieces()) {
    follow(shard, piece, point, z, pace(step, 1.0f, options_.look_ahead),
           [&](std::size_t tile) { return decode_owed(step, shard, tile, z); });
  }
  return point;
}

}  // namespace thinwire
