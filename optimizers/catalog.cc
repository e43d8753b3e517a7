#include "optimizers/catalog.h"

namespace thinwire {

OptimizerCatalog optimizer_catalog() {
  OptimizerCatalog catalog("optimizer");
  add_all_reduce_methods(catalog);
  add_residual_methods(catalog);
  add_local_methods(catalog);
  add_other_methods(catalog);
  return catalog;
}

}  // namespace thinwire
