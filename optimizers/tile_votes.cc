#include "optimizers/tile_votes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr int kOneQ12 = 4096;

}  // namespace

TileVotes::TileVotes(std::span<const Contribution> heard) : TileVotes(heard, Options{}) {}

TileVotes::TileVotes(std::span<const Contribution> heard, Options options)
    : heard_(heard), options_(options), next_(heard.size(), 0) {}

void TileVotes::next_tile() {
  if (started_) ++tile_;
  started_ = true;
  said_.clear();
  positions_.clear();
  blocks_.clear();
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    const Picks& picks = heard_[i].update.picks;
    if (picks.counts.empty() || picks.counts[tile_] == 0) continue;
    blocks_.push_back({said_.size(), said_.size() + picks.counts[tile_]});
    for (const std::size_t end = next_[i] + picks.counts[tile_]; next_[i] < end; ++next_[i]) {
      said_.push_back({picks.positions[next_[i]], picks.codes[next_[i]]});
    }
  }
  if (options_.clip_to_median) clip_blocks();
  // Contributions came in site order; a stable sort keeps that order within a position.
  std::stable_sort(said_.begin(), said_.end(),
                   [](const Said& a, const Said& b) { return a.position < b.position; });
  for (const Said& said : said_) {
    if (positions_.empty() || positions_.back() != said.position) {
      positions_.push_back(said.position);
    }
  }
}

// Replicated: sums in the order of positions, and a square root that IEEE 754 rounds correctly.
void TileVotes::clip_blocks() {
  norms_.clear();
  for (Block& block : blocks_) {
    double squares = 0.0;
    for (std::size_t i = block.begin; i < block.end; ++i) {
      const double value = float_of(said_[i].code);
      squares += value * value;
    }
    norms_.push_back(block.norm = std::sqrt(squares));
  }
  if (norms_.empty()) return;
  const auto middle = norms_.begin() + static_cast<std::ptrdiff_t>((norms_.size() - 1) / 2);
  std::nth_element(norms_.begin(), middle, norms_.end());
  for (const Block& block : blocks_) {
    if (!(block.norm > *middle)) continue;
    const double factor = *middle / block.norm;
    for (std::size_t i = block.begin; i < block.end; ++i) {
      said_[i].code = float_code(static_cast<float>(float_of(said_[i].code) * factor));
    }
  }
}

std::span<const float> TileVotes::means(int sites) {
  means_.clear();
  for (std::size_t i = 0; i < said_.size();) {
    const std::size_t first = i;
    float sum = 0.0f;
    for (; i < said_.size() && said_[i].position == said_[first].position; ++i) {
      sum += float_of(said_[i].code);
    }
    means_.push_back(sum / static_cast<float>(sites > 0 ? sites : static_cast<int>(i - first)));
  }
  return means_;
}

std::span<const std::int32_t> TileVotes::vote_means(int sites) {
  vote_means_.clear();
  for (std::size_t i = 0; i < said_.size();) {
    const std::size_t first = i;
    int sum = 0;
    for (; i < said_.size() && said_[i].position == said_[first].position; ++i) {
      sum += vote_of(said_[i].code);
    }
    const int divisor = sites > 0 ? sites : static_cast<int>(i - first);
    const int size = (2 * kOneQ12 * std::abs(sum) + divisor) / (2 * divisor);
    vote_means_.push_back(sum < 0 ? -size : size);
  }
  return vote_means_;
}

SaidOfTiles::SaidOfTiles(TileVotes votes, std::size_t tiles, int bits, int sites) {
  begin_.reserve(tiles + 1);
  for (std::size_t i = 0; i < tiles; ++i) {
    votes.next_tile();
    positions_.insert(positions_.end(), votes.positions().begin(), votes.positions().end());
    if (bits == 1) {
      const std::span<const std::int32_t> of_tile = votes.vote_means(sites);
      weights_.insert(weights_.end(), of_tile.begin(), of_tile.end());
    } else {
      const std::span<const float> of_tile = votes.means(sites);
      values_.insert(values_.end(), of_tile.begin(), of_tile.end());
    }
    TW_CHECK(positions_.size() < std::numeric_limits<std::uint32_t>::max());
    begin_.push_back(static_cast<std::uint32_t>(positions_.size()));
  }
}

kernels::Said SaidOfTiles::some(std::size_t first, std::size_t count) const {
  return {.begin = std::span(begin_).subspan(first, count + 1),
          .positions = positions_,
          .weights = weights_,
          .values = values_};
}

}  // namespace thinwire
