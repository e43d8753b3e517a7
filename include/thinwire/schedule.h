// Learning-rate schedules: pure functions of the step, with basic arithmetic only, so that every
// site computes the same bits on any machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace thinwire {

enum class ScheduleShape { constant, linear, cosine, wsd };

// Warm-up: (step + 1) / warmup * peak for step < warmup. Then, up to `steps`:
//   constant  peak
//   linear    straight down to floor * peak
//   cosine    half a cosine down to floor * peak
//   wsd       warm-up, stable, decay: peak, then straight down over the last `decay` share of the
//   steps
// After `steps` the last value stays.
struct Schedule {
  ScheduleShape shape = ScheduleShape::cosine;
  float peak = 1e-3f;        // > 0
  std::uint64_t steps = 0;   // length of the run, > 0 unless constant
  std::uint64_t warmup = 0;  // steps, <= steps
  float floor = 0.1f;        // share of the peak at the end, 0 .. 1
  float decay = 0.2f;        // for wsd: share of the steps, 0 .. 1

  float at(std::uint64_t step) const;
  // Throws UsageError naming the field that is out of range.
  void validate() const;
};

// Throws UsageError listing the known names.
ScheduleShape parse_schedule_shape(std::string_view name);

}  // namespace thinwire
