#include <algorithm>
#include <cmath>

#include "thinwire/guard.h"

namespace thinwire {
namespace {

constexpr double kMemory = 0.95;  // of the running means: about the last 20 steps
// Where losses hardly move, noise is no spike.
constexpr double kLeast = 0.01;  // of the mean

}  // namespace

bool LossGuard::is_spike(float loss) {
  if (spike_ <= 0.0f) return false;
  if (!std::isfinite(loss)) return true;
  const double above = loss - usual_.mean;
  const double least = std::max(usual_.deviation, kLeast * std::abs(usual_.mean));
  if (usual_.seen >= kGuardWarmup && above > spike_ * least) return true;
  // The first values count for more: plain means until the memory is full.
  const double keep = std::min(kMemory, usual_.seen / (usual_.seen + 1.0));
  if (usual_.seen > 0) usual_.deviation = keep * usual_.deviation + (1.0 - keep) * std::abs(above);
  usual_.mean = keep * usual_.mean + (1.0 - keep) * loss;
  ++usual_.seen;
  return false;
}

}  // namespace thinwire
