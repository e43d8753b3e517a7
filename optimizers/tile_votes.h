// What several sites said of one tile, brought together. Shared by the transform-domain methods.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/update.h"

namespace thinwire {

// Walks the picks of all contributions tile by tile, merging equal positions in site order.
class TileVotes {
 public:
  explicit TileVotes(std::span<const Contribution> heard);

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

  std::span<const Contribution> heard_;
  std::size_t tile_ = 0;
  bool started_ = false;
  std::vector<std::size_t> next_;  // per contribution: first pick of the next tile
  std::vector<Said> said_;         // of this tile, by position, then in site order
  std::vector<std::uint16_t> positions_;
  std::vector<float> means_;
  std::vector<std::int32_t> vote_means_;
};

}  // namespace thinwire
