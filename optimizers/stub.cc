#include "optimizers/catalog.h"
namespace thinwire {

void add_other_methods(OptimizerCatalog&) {}
}  // namespace thinwire
