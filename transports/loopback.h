// The transport inside one process: every rank of every site is a thread. Near and far links are
// memory, deterministic and without sleeping, so that training, tests and comparisons need no
// network.
//
// The far exchange is a relay, as across the internet: a site hands over one copy of its frame and
// receives the others'. With a link it also keeps a virtual clock for each site: what a round costs
// in time is computed from delay, rate, loss and jitter, and a frame that would arrive too late is
// left out of its round, always the same one for the same seed.
//
// Thread rule: near(s, r), far(s, r) and far_collective(s, r) each belong to the one thread that
// plays rank r of site s; the world itself may be used from any thread and must outlive them.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/exchange.h"
#include "thinwire/link_model.h"

namespace thinwire {

class LoopbackGroup;
class LoopbackHub;

struct LoopbackOptions {
  int sites = 1;
  int ranks = 1;  // per site
  // Longest wait for another thread, in real time; then Error (collectives) or a closed round
  // (far).
  std::chrono::milliseconds deadline{60'000};
  std::optional<LinkOptions> link = {};  // of each direction of each site
  // On the virtual clock, from the first arrival of a round: later frames are left out.
  double round_deadline_s = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 1;  // of loss and jitter
};

class LoopbackWorld {
 public:
  explicit LoopbackWorld(LoopbackOptions options);  // throws UsageError
  ~LoopbackWorld();

  Collective& near(int site, int rank);
  Collective& far_collective(int site, int rank);  // among the ranks `rank` of all sites
  Exchange& far(int site, int rank);

  // The virtual clock of that rank's far link, in seconds; spend() is time it worked.
  double now(int site, int rank) const;
  void spend(int site, int rank, double seconds);

  // A thread gives up: every wait, now and later, throws Error with this text.
  void fail(const std::string& why);

 private:
  std::size_t index(int site, int rank) const;

  LoopbackOptions options_;
  std::vector<std::unique_ptr<LoopbackGroup>> groups_;  // one a site, then one a rank
  std::unique_ptr<LoopbackHub> hub_;
  std::vector<std::unique_ptr<Collective>> near_;
  std::vector<std::unique_ptr<Collective>> far_collective_;
  std::vector<std::unique_ptr<Exchange>> far_;
};

}  // namespace thinwire
