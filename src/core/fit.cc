#include "src/core/fit.h"

#include <string>

#include "thinwire/error.h"

namespace thinwire {

int parts_of(const Collective& near, const SiteOptions& site) {
  return site.sharding == Sharding::none ? 1 : near.size();
}

void check_fit(const Traits& traits, const Optimizer& optimizer, const Sync& sync,
               const Collective& near, const TrainerOptions& options) {
  const std::string name(optimizer.name());
  const int sites = options.sites;
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
