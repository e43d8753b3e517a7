// Prints what one rank of two would own of a small layer, and a few learning rates.
#include <thinwire/layout.h>
#include <thinwire/schedule.h>
#include <thinwire/shard.h>

#include <cstdio>

int main() {
  const thinwire::Layout layout({{.name = "w", .shape = {100, 70}}, {.name = "b", .shape = {100}}});
  std::printf("%zu parameters in %zu blocks, %zu rows of tiles\n", layout.trainable_size(),
              layout.blocks().size(), layout.tile_rows().size());

  const thinwire::Schedule schedule({.peak = 0.01f, .steps = 100, .warmup = 10});
  for (int step : {0, 10, 99}) std::printf("step %d: lr %.5f\n", step, schedule.at(step));
  return layout.trainable_size() == 7100 ? 0 : 1;
}
