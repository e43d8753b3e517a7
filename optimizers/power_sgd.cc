#include "optimizers/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "optimizers/arithmetic.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

// In [-1, 1), the same everywhere: a start for Q that no gradient is orthogonal to.
float start_value(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<std::int32_t>(z >> 32)) * 0x1p-31f;
}

// Gram-Schmidt, twice, on the columns of a rows x rank matrix, row-major. A column of which nothing
// is left becomes zero, not noise.
void orthonormalize(std::size_t rows, std::size_t rank, Floats p) {
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < rows; ++i) {
      sum += static_cast<double>(p[i * rank + a]) * p[i * rank + b];
    }
    return sum;
  };
  for (std::size_t c = 0; c < rank; ++c) {
    const double before = dot(c, c);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t b = 0; b < c; ++b) {
        const auto share = static_cast<float>(dot(c, b));
        for (std::size_t i = 0; i < rows; ++i) p[i * rank + c] -= share * p[i * rank + b];
      }
    }
    const double left = dot(c, c);
    const float factor = left > 1e-12 * before ? static_cast<float>(1.0 / std::sqrt(left)) : 0.0f;
    for (std::size_t i = 0; i < rows; ++i) p[i * rank + c] *= factor;
  }
}

// out (rows x rank) = d (rows x cols) q (cols x rank)
void times(const Piece& piece, std::size_t rank, ConstFloats d, ConstFloats q, Floats out) {
  for (std::size_t i = 0; i < piece.rows; ++i) {
    const Floats sum = out.subspan(i * rank, rank);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (std::size_t j = 0; j < piece.cols; ++j) {
      for (std::size_t c = 0; c < rank; ++c) sum[c] += d[i * piece.cols + j] * q[j * rank + c];
    }
  }
}

// out (cols x rank) = d' p
void transposed_times(const Piece& piece, std::size_t rank, ConstFloats d, ConstFloats p,
                      Floats out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t i = 0; i < piece.rows; ++i) {
    for (std::size_t j = 0; j < piece.cols; ++j) {
      for (std::size_t c = 0; c < rank; ++c) {
        out[j * rank + c] += d[i * piece.cols + j] * p[i * rank + c];
      }
    }
  }
}

// Over those whose words have the length that is due; empty when there are none.
std::vector<float> mean_of(std::span<const Contribution> heard, std::size_t size) {
  std::vector<float> mean;
  float speakers = 0.0f;
  for (const Contribution& one : heard) {
    if (one.update.dense.size() != size) continue;
    mean.resize(size, 0.0f);
    kernels::scale_add(mean, 1.0f, one.update.dense, 1.0f);
    speakers += 1.0f;
  }
  if (speakers > 0.0f) kernels::scale(mean, 1.0f / speakers);
  return mean;
}

}  // namespace

PowerSgd::PowerSgd(Options options) : options_(std::move(options)) {
  if (options_.rank < 1 || options_.rank > static_cast<int>(kTileSide)) {
    throw UsageError("powersgd: rank must be from 1 to 64");
  }
}

Traits PowerSgd::traits() const {
  Traits traits;
  traits.whole_matrices = true;
  traits.phases = 2;
  traits.suggested_lr = 0.1f;
  traits.states = options_.rule->states(StateKind::replicated);
  traits.states.push_back({"residual", StateKind::own});
  // In how many exchanges of this step the site was heard, as far as it knows.
  traits.states.push_back({"said", StateKind::own, StateExtent::whole, 1, true});
  // Rows of Q lie with the first tile of their 64 columns.
  traits.states.push_back({"q", StateKind::replicated, StateExtent::per_tile,
                           kTileSide * static_cast<std::size_t>(options_.rank)});
  traits.form = {.picks_a_tile = 0, .scales = false};
  return traits;
}

bool PowerSgd::compresses(const Shard& shard, const Piece& piece) const {
  const Block& block = shard.layout().blocks()[piece.block];
  const auto rank = static_cast<std::size_t>(options_.rank);
  if (!(block.hidden || block.table) || std::min(piece.rows, piece.cols) < rank) return false;
  return static_cast<double>((piece.rows + piece.cols) * rank) * options_.min_saving <
         static_cast<double>(piece.size);
}

std::size_t PowerSgd::said_size(const Shard& shard, int phase) const {
  std::size_t size = 0;
  const auto rank = static_cast<std::size_t>(options_.rank);
  for (const Piece& piece : shard.pieces()) {
    if (compresses(shard, piece)) {
      size += (phase == 0 ? piece.rows : piece.cols) * rank;
    } else if (phase == 0) {
      size += piece.size;
    }
  }
  return size;
}

Floats PowerSgd::factor(Shard& shard, const Piece& piece, std::size_t column_tile) const {
  const std::size_t count = kTileSide * static_cast<std::size_t>(options_.rank);
  return shard.state("q").subspan((piece.first_tile + column_tile) * count, count);
}

// Q of the last step. A column of zeros would stay one for ever: where the gradient had a lower
// rank, or none yet, the column starts anew.
std::vector<float> PowerSgd::right_factor(Shard& shard, const Piece& piece) const {
  const auto rank = static_cast<std::size_t>(options_.rank);
  const std::size_t width = shard.layout().blocks()[piece.block].tile_width;
  std::vector<float> q(piece.cols * rank);
  std::vector<bool> any(rank, false);
  for (std::size_t j = 0; j < piece.cols; ++j) {
    const ConstFloats row = factor(shard, piece, j / width).subspan(j % width * rank, rank);
    std::copy(row.begin(), row.end(), q.begin() + static_cast<std::ptrdiff_t>(j * rank));
    for (std::size_t c = 0; c < rank; ++c) any[c] = any[c] || row[c] != 0.0f;
  }
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (!any[i % rank]) q[i] = start_value(i);
  }
  return q;
}

void PowerSgd::keep_right_factor(Shard& shard, const Piece& piece, ConstFloats q) const {
  const auto rank = static_cast<std::size_t>(options_.rank);
  const std::size_t width = shard.layout().blocks()[piece.block].tile_width;
  for (std::size_t j = 0; j < piece.cols; ++j) {
    const ConstFloats row = q.subspan(j * rank, rank);
    std::copy(
        row.begin(), row.end(),
        factor(shard, piece, j / width).begin() + static_cast<std::ptrdiff_t>(j % width * rank));
  }
}

Update PowerSgd::extract(const Step& step, Shard& shard) {
  std::size_t most = 0;
  for (const Block& block : shard.layout().blocks()) {
    if (block.hidden || block.table) most = std::max(most, std::min(block.rows, block.cols));
  }
  if (most > 0 && static_cast<std::size_t>(options_.rank) > most) {
    throw UsageError("powersgd: rank (" + std::to_string(options_.rank) +
                     ") is above every matrix; the largest has " + std::to_string(most) +
                     " rows or columns: take that or less");
  }
  const auto rank = static_cast<std::size_t>(options_.rank);
  kernels::scale_add(shard.state("residual"), 1.0f, shard.grad(),
                     clip_factor(step.norm, options_.clip));
  shard.state("said")[0] = 2.0f;
  Update update;
  update.dense.reserve(said_size(shard, 0));
  for (const Piece& piece : shard.pieces()) {
    const ConstFloats d = part(ConstFloats(shard.state("residual")), piece);
    if (!compresses(shard, piece)) {
      update.dense.insert(update.dense.end(), d.begin(), d.end());
      continue;
    }
    const std::size_t begin = update.dense.size();
    update.dense.resize(begin + piece.rows * rank);
    times(piece, rank, d, right_factor(shard, piece), Floats(update.dense).subspan(begin));
  }
  return update;
}

Update PowerSgd::apply(const Step& step, Shard& shard, std::span<const Contribution> heard) {
  const std::vector<float> mean = mean_of(heard, said_size(shard, step.phase));
  if (step.phase == 0) {
    first_ = mean;
    if (first_.empty()) return {};
    orthonormalize_first(shard);
    // Who is not in P has no place in Q.
    return shard.state("said")[0] == 0.0f ? Update{} : say_right_factors(shard);
  }
  // A model without any matrix that is compressed has said everything in the first exchange.
  if (!first_.empty() && (!mean.empty() || said_size(shard, 1) == 0)) follow(step, shard, mean);
  shard.state("said")[0] = 0.0f;
  return {};
}

void PowerSgd::orthonormalize_first(const Shard& shard) {
  const auto rank = static_cast<std::size_t>(options_.rank);
  std::size_t at = 0;
  for (const Piece& piece : shard.pieces()) {
    const bool low = compresses(shard, piece);
    const std::size_t size = low ? piece.rows * rank : piece.size;
    if (low) orthonormalize(piece.rows, rank, Floats(first_).subspan(at, size));
    at += size;
  }
}

Update PowerSgd::say_right_factors(Shard& shard) const {
  const auto rank = static_cast<std::size_t>(options_.rank);
  Update update;
  std::size_t at = 0;
  for (const Piece& piece : shard.pieces()) {
    if (!compresses(shard, piece)) {
      at += piece.size;
      continue;
    }
    const ConstFloats p = ConstFloats(first_).subspan(at, piece.rows * rank);
    at += p.size();
    const std::size_t begin = update.dense.size();
    update.dense.resize(begin + piece.cols * rank);
    transposed_times(piece, rank, part(ConstFloats(shard.state("residual")), piece), p,
                     Floats(update.dense).subspan(begin));
  }
  return update;
}

// The gradient is used up: its floats hold G.
void PowerSgd::follow(const Step& step, Shard& shard, ConstFloats right_factors) {
  const auto rank = static_cast<std::size_t>(options_.rank);
  const float said = shard.state("said")[0];
  const Move how{.lr = step.lr, .keep = 1.0f - step.lr * options_.weight_decay};
  std::size_t p_at = 0;
  std::size_t q_at = 0;
  options_.rule->begin(shard);
  for (const Piece& piece : shard.pieces()) {
    const Floats g = part(shard.grad(), piece);
    const Floats owed = part(shard.state("residual"), piece);
    if (compresses(shard, piece)) {
      const ConstFloats p = ConstFloats(first_).subspan(p_at, piece.rows * rank);
      const ConstFloats q = right_factors.subspan(q_at, piece.cols * rank);
      p_at += p.size();
      q_at += q.size();
      keep_right_factor(shard, piece, q);
      for (std::size_t i = 0; i < piece.rows; ++i) {
        for (std::size_t j = 0; j < piece.cols; ++j) {
          float sum = 0.0f;
          for (std::size_t c = 0; c < rank; ++c) sum += p[i * rank + c] * q[j * rank + c];
          g[i * piece.cols + j] = sum;
        }
      }
      if (said > 1.0f) kernels::scale_add(owed, 1.0f, g, -1.0f);
    } else {
      const ConstFloats mean = ConstFloats(first_).subspan(p_at, piece.size);
      p_at += piece.size;
      std::copy(mean.begin(), mean.end(), g.begin());
      if (said > 0.0f) std::fill(owed.begin(), owed.end(), 0.0f);
    }
    options_.rule->move(shard, piece, g, part(shard.params(), piece), how);
  }
}

// All of it is still in E.
void PowerSgd::take_back(const Step& said, Shard& shard, const Update& unheard) {
  float& exchanges = shard.state("said")[0];
  if (!unheard.empty()) exchanges = std::min(exchanges, static_cast<float>(said.phase));
}

}  // namespace thinwire
