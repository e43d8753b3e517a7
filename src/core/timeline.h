// The clock of a rank's steps: adds up where the time goes and tells a sink of each stretch.
#pragma once

#include <atomic>
#include <cstdint>

#include "thinwire/timeline.h"

namespace thinwire {

// Seconds of the steady clock.
double wall_s();

class Timeline {
 public:
  explicit Timeline(SpanSink* sink) : sink_(sink) {}

  // Training thread. `step` is what spans carry from now on.
  void begin_step(std::uint64_t step);
  StepTimes end_step();

  // Training thread: `operation` is work or a wait of that phase. The near link's waits inside of
  // the computation are taken out of it.
  template <class Operation>
  decltype(auto) in(Phase phase, Operation&& operation) {
    const Stretch stretch(*this, phase);
    return operation();
  }
  // Whichever thread executes the near link's operation.
  void near_worked(Phase phase, int unit, bool near_thread, double begin_s) noexcept;

 private:
  // Ends with its scope, also by an exception.
  class Stretch {
   public:
    Stretch(Timeline& timeline, Phase phase);
    ~Stretch();
    Stretch(const Stretch&) = delete;
    Stretch& operator=(const Stretch&) = delete;

   private:
    Timeline& timeline_;
    const Phase phase_;
    const double begin_s_;
    const double inner_before_s_;
  };

  SpanSink* const sink_;
  std::atomic<std::uint64_t> step_{0};
  double begun_s_ = 0.0;
  double inner_s_ = 0.0;  // of stretches that have ended, each second once
  double seconds_[kPhases] = {};
};

}  // namespace thinwire
