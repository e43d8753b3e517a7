#include "thinwire/schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr double kPi = 3.14159265358979323846;

// cos(pi x) for x in [0, 1] by the Taylor series of -sin(pi (x - 1/2)) to degree 17: error below
// 1e-13, and no libm, whose last bit differs between machines.
double cos_pi(double x) {
  const double y = kPi * (x - 0.5);
  const double square = y * y;
  double term = y;
  double sum = y;
  for (int n = 3; n <= 17; n += 2) {
    term *= -square / (n * (n - 1));
    sum += term;
  }
  return -sum;
}

// Share of the way from the peak to the floor that `step` has gone, 0 .. 1.
double descent(const Schedule& schedule, std::uint64_t step) {
  const std::uint64_t last = schedule.steps - 1;
  const double length = static_cast<double>(last - std::min(last, schedule.warmup));
  const double done = static_cast<double>(std::min(step, last) - std::min(step, schedule.warmup));
  const double share = length > 0 ? std::min(1.0, done / length) : 1.0;
  switch (schedule.shape) {
    case ScheduleShape::linear:
      return share;
    case ScheduleShape::cosine:
      return 0.5 * (1.0 - cos_pi(share));
    case ScheduleShape::wsd: {
      const double decay =
          static_cast<double>(schedule.decay) * static_cast<double>(schedule.steps);
      const double left = static_cast<double>(last - std::min(step, last));
      return decay > 0 ? std::max(0.0, 1.0 - left / decay) : 0.0;
    }
    case ScheduleShape::constant:
      break;
  }
  return 0.0;
}

}  // namespace

float Schedule::at(std::uint64_t step) const {
  if (step < warmup) {
    return static_cast<float>(static_cast<double>(peak) * static_cast<double>(step + 1) /
                              static_cast<double>(warmup));
  }
  if (shape == ScheduleShape::constant) return peak;
  const double share = 1.0 - (1.0 - static_cast<double>(floor)) * descent(*this, step);
  return static_cast<float>(static_cast<double>(peak) * share);
}

void Schedule::validate() const {
  if (!std::isfinite(peak) || peak <= 0) {
    throw UsageError("the learning rate must be a number above 0, not " + std::to_string(peak));
  }
  if (steps == 0 && shape != ScheduleShape::constant) throw UsageError("steps must be 1 or more");
  if (shape != ScheduleShape::constant && warmup > steps) {
    throw UsageError("warmup must be at most the number of steps, " + std::to_string(steps));
  }
  if (!(floor >= 0 && floor <= 1)) throw UsageError("the schedule's floor must be from 0 to 1");
  if (!(decay >= 0 && decay <= 1)) throw UsageError("the schedule's decay must be from 0 to 1");
}

ScheduleShape parse_schedule_shape(std::string_view name) {
  if (name == "constant") return ScheduleShape::constant;
  if (name == "linear") return ScheduleShape::linear;
  if (name == "cosine") return ScheduleShape::cosine;
  if (name == "wsd") return ScheduleShape::wsd;
  throw UsageError("unknown schedule '" + std::string(name) +
                   "'; known: constant, cosine, linear, wsd");
}

}  // namespace thinwire
