// Whether the parts that a trainer is given fit together.
#pragma once

#include "thinwire/trainer.h"

namespace thinwire {

// How many parts the optimizer's work is cut into: without sharding every rank does all of it.
int parts_of(const Collective& near, const SiteOptions& site);

// Throws UsageError.
void check_fit(const Traits& traits, const Optimizer& optimizer, const Sync& sync,
               const Collective& near, const TrainerOptions& options);

}  // namespace thinwire
