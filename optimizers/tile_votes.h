// What several sites said of one tile, brought together. Shared by the transform-domain methods.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/tile_kernels.h"
#include "thinwire/update.h"

namespace thinwire {

// Walks the picks of all contributions tile by tile, merging equal positions in site order.
class TileVotes {
 public:
  // clip_to_median, of 32-bit values: in every tile, what a site said is scaled down to the median
  // L2 norm of what the sites said that spoke of it, of an even number the lower of the two in the
  // middle. Never up.
  struct Options {
    bool clip_to_median = false;
  };

  explicit TileVotes(std::span<const Contribution> heard);
  TileVotes(std::span<const Contribution> heard, Options options);

  // Goes on to the next tile; the first call goes to tile 0.
  void next_tile();
  bool empty() const { return positions_.empty(); }
  std::span<const std::uint16_t> positions() const { return positions_; }
  // Sum of 32-bit values divided by the senders, or by `sites` if it is not 0.
  std::span<const float> means(int sites);
  // The same of 1-bit votes in Q12 fixed point, rounded half away from zero.
  std::span<const std::int32_t> vote_means(int sites);

 private:
  struct Said {
    std::uint16_t position;
    std::uint32_t code;
  };

  // Of one site in said_, before it is sorted.
  struct Block {
    std::size_t begin = 0;
    std::size_t end = 0;
    double norm = 0.0;
  };
  void clip_blocks();

  std::span<const Contribution> heard_;
  Options options_;
  std::size_t tile_ = 0;
  bool started_ = false;
  std::vector<std::size_t> next_;  // per contribution: first pick of the next tile
  std::vector<Said> said_;         // of this tile, by position, then in site order
  std::vector<Block> blocks_;
  std::vector<double> norms_;
  std::vector<std::uint16_t> positions_;
  std::vector<float> means_;
  std::vector<std::int32_t> vote_means_;
};

// What all contributions said of the first `tiles` tiles, brought together: votes in Q12, or 32-bit
// values, each divided by its senders, or by `sites` if that is not 0.
class SaidOfTiles {
 public:
  SaidOfTiles(TileVotes votes, std::size_t tiles, int bits, int sites);

  // Of `count` tiles from `first` on.
  kernels::Said some(std::size_t first, std::size_t count) const;

 private:
  std::vector<std::uint32_t> begin_{0};
  std::vector<std::uint16_t> positions_;
  std::vector<std::int32_t> weights_;
  std::vector<float> values_;
};

}  // namespace thinwire
