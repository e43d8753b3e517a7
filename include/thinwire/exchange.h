// The far link: opaque frames between the ranks that own the same part of the model at all sites.
// A round closes once, with the same contributions for every site, when all have posted or a
// deadline has passed. Who was late is absence in the result, never an exception.
//
// One thread per member. post never blocks; collect blocks until the round is closed.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/types.h"

namespace thinwire {

// Rounds are ordered by (number, phase); the epoch is the version of the membership.
struct Round {
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  std::uint32_t phase = 0;

  auto operator<=>(const Round&) const = default;
};

struct SiteFrame {
  int site = 0;
  Bytes bytes;
};

struct RoundResult {
  std::vector<SiteFrame> frames;  // ascending sites, the own one included if it was in time
  std::vector<int> absent;        // ascending sites that the round closed without
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int site() const = 0;
  virtual int sites() const = 0;

  // Hands over the frame of this site for that round. A second frame for a round, or one for a
  // round already closed, is refused and counted in traffic().refused.
  virtual void post(const Round& round, Bytes frame) = 0;
  // Waits until the round is closed. Throws Error when the link itself failed.
  virtual RoundResult collect(const Round& round) = 0;

  // Has the round been closed without a frame of ours? A site that is behind then need not compute
  // one.
  virtual bool missed(const Round&) const { return false; }

  virtual Traffic traffic() const = 0;
};

}  // namespace thinwire
