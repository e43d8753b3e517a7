#include "src/core/timeline.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace thinwire {

double wall_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::compute:
      return "compute";
    case Phase::gather:
      return "gather";
    case Phase::reduce:
      return "reduce";
    case Phase::extract:
      return "extract";
    case Phase::exchange:
      return "exchange";
    case Phase::apply:
      return "apply";
  }
  return "";
}

void StepTimes::add(const StepTimes& other, double weight) {
  compute_s += weight * other.compute_s;
  gather_wait_s += weight * other.gather_wait_s;
  reduce_wait_s += weight * other.reduce_wait_s;
  extract_s += weight * other.extract_s;
  exchange_wait_s += weight * other.exchange_wait_s;
  apply_s += weight * other.apply_s;
  total_s += weight * other.total_s;
}

void Timeline::begin_step(std::uint64_t step) {
  step_.store(step, std::memory_order_relaxed);
  std::fill(std::begin(seconds_), std::end(seconds_), 0.0);
  begun_s_ = wall_s();
}

StepTimes Timeline::end_step() {
  const auto of = [&](Phase phase) { return seconds_[static_cast<int>(phase)]; };
  StepTimes times;
  times.compute_s = of(Phase::compute);
  times.gather_wait_s = of(Phase::gather);
  times.reduce_wait_s = of(Phase::reduce);
  times.extract_s = of(Phase::extract);
  times.exchange_wait_s = of(Phase::exchange);
  times.apply_s = of(Phase::apply);
  times.total_s = wall_s() - begun_s_;
  if (sink_ != nullptr) sink_->step_ended(step_.load(std::memory_order_relaxed));
  return times;
}

void Timeline::near_worked(Phase phase, int unit, bool near_thread, double begin_s) noexcept {
  if (sink_ == nullptr) return;
  sink_->span({phase, unit, near_thread, step_.load(std::memory_order_relaxed), begin_s, wall_s()});
}

Timeline::Stretch::Stretch(Timeline& timeline, Phase phase)
    : timeline_(timeline), phase_(phase), begin_s_(wall_s()), inner_before_s_(timeline.inner_s_) {}

Timeline::Stretch::~Stretch() {
  const double end_s = wall_s();
  const double own_s = end_s - begin_s_ - (timeline_.inner_s_ - inner_before_s_);
  timeline_.seconds_[static_cast<int>(phase_)] += own_s;
  timeline_.inner_s_ += own_s;
  if (timeline_.sink_ == nullptr) return;
  timeline_.sink_->span(
      {phase_, -1, false, timeline_.step_.load(std::memory_order_relaxed), begin_s_, end_s});
}

}  // namespace thinwire
