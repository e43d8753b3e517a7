// `thinwire optimizers`: what there is, and what it asks for.
#pragma once

#include "optimizers/catalog.h"

namespace thinwire::app {

// For each method a line on what it is, one on what it costs, and its settings.
void list_optimizers(const OptimizerCatalog& catalog);

}  // namespace thinwire::app
