// The table of optimizers: a name to a factory. main() makes one and may add rows of its own:
//   OptimizerCatalog catalog = optimizer_catalog();
//   catalog.add("mine", "what it does", [](Settings& s) { return std::make_unique<Mine>(...); });
#pragma once

#include "thinwire/catalog.h"
#include "thinwire/optimizer.h"

namespace thinwire {

using OptimizerCatalog = Catalog<Optimizer>;

// adamw, demo, distro, sgd. Settings and their ranges: docs/optimizers.md.
OptimizerCatalog optimizer_catalog();

}  // namespace thinwire
