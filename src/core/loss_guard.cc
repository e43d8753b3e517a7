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
  const double above = loss - mean_;
  const double usual = std::max(deviation_, kLeast * std::abs(mean_));
  if (seen_ >= kGuardWarmup && above > spike_ * usual) return true;
  // The first values count for more: plain means until the memory is full.
  const double keep = std::min(kMemory, seen_ / (seen_ + 1.0));
  if (seen_ > 0) deviation_ = keep * deviation_ + (1.0 - keep) * std::abs(above);
  mean_ = keep * mean_ + (1.0 - keep) * loss;
  ++seen_;
  return false;
}

}  // namespace thinwire
