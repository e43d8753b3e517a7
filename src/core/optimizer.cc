#include "thinwire/optimizer.h"

namespace thinwire {

bool Optimizer::speaks(const Step&) const { return true; }

std::uint64_t rounds_before(const Optimizer& optimizer, std::uint64_t step, int sites) {
  std::uint64_t rounds = 0;
  Step one;
  one.sites = sites;
  for (; one.index < step; ++one.index) rounds += optimizer.speaks(one) ? 1 : 0;
  return rounds;
}

void Optimizer::take_back(const Step&, Shard&, const Update&) {}

Floats Optimizer::gradient_point(const Step&, Shard& shard) { return shard.params(); }

}  // namespace thinwire
