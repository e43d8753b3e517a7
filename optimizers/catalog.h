// The table of optimizers: a name to a factory. main() makes one and may add rows of its own:
//   OptimizerCatalog catalog = optimizer_catalog();
//   catalog.add("mine", "what it does", [](Settings& s) { return std::make_unique<Mine>(...); });
#pragma once

#include "thinwire/catalog.h"
#include "thinwire/optimizer.h"

namespace thinwire {

using OptimizerCatalog = Catalog<Optimizer>;

// Every method of the house. Settings and their ranges: docs/optimizers.md.
OptimizerCatalog optimizer_catalog();

// Its parts, by family.
void add_all_reduce_methods(OptimizerCatalog& catalog);  // dense means in every step
void add_residual_methods(OptimizerCatalog& catalog);    // the largest of what is owed, every step
void add_local_methods(OptimizerCatalog& catalog);       // local steps
void add_other_methods(OptimizerCatalog& catalog);       // low rank, one bit

}  // namespace thinwire
