#include "transports/loopback.h"

#include "thinwire/error.h"
#include "transports/loopback_group_internal.h"
#include "transports/loopback_hub_internal.h"

namespace thinwire {

LoopbackWorld::LoopbackWorld(LoopbackOptions options) : options_(options) {
  if (options.sites < 1) throw UsageError("sites must be 1 or more");
  if (options.ranks < 1) throw UsageError("ranks must be 1 or more");
  if (!(options.round_deadline_s > 0)) throw UsageError("the round deadline must be above 0 s");
  if (options.link) options.link->validate();
  for (int site = 0; site < options.sites; ++site) {
    groups_.push_back(std::make_unique<LoopbackGroup>("site " + std::to_string(site), "rank ",
                                                      options.ranks, options.deadline));
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    groups_.push_back(std::make_unique<LoopbackGroup>("rank " + std::to_string(rank), "site ",
                                                      options.sites, options.deadline));
    LoopbackOptions of_hub = options;
    of_hub.seed += 2 * static_cast<std::uint64_t>(options.sites) * rank;
    hubs_.push_back(std::make_unique<LoopbackHub>(of_hub));
  }
  for (int site = 0; site < options.sites; ++site) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      near_.push_back(make_loopback_collective(*groups_[site], rank));
      far_collective_.push_back(make_loopback_collective(*groups_[options.sites + rank], site));
      far_.push_back(make_loopback_exchange(*hubs_[rank], site));
    }
  }
}

LoopbackWorld::~LoopbackWorld() = default;

std::size_t LoopbackWorld::index(int site, int rank) const {
  TW_CHECK(site >= 0 && site < options_.sites && rank >= 0 && rank < options_.ranks);
  return static_cast<std::size_t>(site) * options_.ranks + rank;
}

Collective& LoopbackWorld::near(int site, int rank) { return *near_[index(site, rank)]; }
Collective& LoopbackWorld::far_collective(int site, int rank) {
  return *far_collective_[index(site, rank)];
}
Exchange& LoopbackWorld::far(int site, int rank) { return *far_[index(site, rank)]; }

double LoopbackWorld::now(int site, int rank) const { return hubs_[rank]->now(site); }
void LoopbackWorld::spend(int site, int rank, double seconds) { hubs_[rank]->spend(site, seconds); }

void LoopbackWorld::fail(const std::string& why) {
  for (auto& group : groups_) group->fail(why);
  for (auto& hub : hubs_) hub->fail(why);
}

}  // namespace thinwire
