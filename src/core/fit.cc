#include "src/core/fit.h"

#include <string>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr int kPhasesMax = 64;  // far below the phases of a repair

}  // namespace

int parts_of(const Collective& near, const SiteOptions& site) {
  return site.sharding == Sharding::none ? 1 : near.size();
}

void check_fit(const Traits& traits, const Optimizer& optimizer, const Sync& sync,
               const Collective& near, const TrainerOptions& options) {
  const std::string name(optimizer.name());
  const int sites = options.sites;
  if (traits.phases < 1 || traits.phases > kPhasesMax) {
    throw UsageError(name + " has " + std::to_string(traits.phases) + " phases; from 1 to " +
                     std::to_string(kPhasesMax) + " are possible");
  }
  // The later phases would wait for this step's own round, and the delay would hide nothing.
  if (traits.phases > 1 && (traits.delay > 0 || traits.meeting == Meeting::reduce)) {
    throw UsageError(name +
                     " has several phases, which need gathered updates and delay 0; give it "
                     "one phase or these");
  }
  if (options.site.sharding == Sharding::none && near.size() > 1 && sites > 1) {
    // Every rank would tell the other sites the same.
    throw UsageError(
        "sharding none is for one site, or for one rank a site; between sites take "
        "optimizer, gradient or full");
  }
  if (traits.meeting == Meeting::nothing) return;
  if ((traits.meeting == Meeting::reduce) != sync.reduces()) {
    throw UsageError(name + (sync.reduces() ? " gathers updates; give it a DelayedSync"
                                            : " sums dense updates; give it an AllReduceSync"));
  }
  if (sites != sync.sites()) {
    throw UsageError("the trainer is set up for " + std::to_string(sites) +
                     " sites but the sync for " + std::to_string(sync.sites()) +
                     "; make them equal");
  }
  if (traits.delay != sync.delay()) {
    throw UsageError(name + " is set up for delay " + std::to_string(traits.delay) +
                     " but the sync for " + std::to_string(sync.delay()) + "; make them equal");
  }
}

}  // namespace thinwire
