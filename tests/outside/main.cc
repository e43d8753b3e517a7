// Prints what a small layer becomes, a few learning rates, and the optimizers to choose from.
#include <cstdio>

#include "thinwire/layout.h"
#include "thinwire/optimizers/catalog.h"
#include "thinwire/schedule.h"

int main() {
  const thinwire::Layout layout({{.name = "w", .shape = {100, 70}}, {.name = "b", .shape = {100}}});
  std::printf("%zu parameters in %zu blocks, %zu rows of tiles\n", layout.trainable_size(),
              layout.blocks().size(), layout.tile_rows().size());

  const thinwire::Schedule schedule({.peak = 0.01f, .steps = 100, .warmup = 10});
  for (int step : {0, 10, 99}) std::printf("step %d: lr %.5f\n", step, schedule.at(step));

  const thinwire::OptimizerCatalog catalog = thinwire::optimizer_catalog();
  for (const auto& name : catalog.names()) std::printf("optimizer %s\n", name.c_str());
  return layout.trainable_size() == 7100 && !catalog.names().empty() ? 0 : 1;
}
