// Where the time of a step goes, on one rank.
#pragma once

#include <cstdint>

namespace thinwire {

// compute: the model. gather, reduce: the near link, parameters in and gradients out. extract: the
// norm and the optimizer's first verb. exchange: the far link. apply: the optimizer's second verb.
enum class Phase { compute, gather, reduce, extract, exchange, apply };
inline constexpr int kPhases = 6;
const char* to_string(Phase phase);

// Wall seconds of the training thread. gather_wait_s and reduce_wait_s are what it stood still for
// the near link; with prefetch the link works longer than that, beside the computation.
struct StepTimes {
  double compute_s = 0.0;
  double gather_wait_s = 0.0;
  double reduce_wait_s = 0.0;
  double extract_s = 0.0;
  double exchange_wait_s = 0.0;
  double apply_s = 0.0;
  double total_s = 0.0;  // of the step: the above and what lies between them

  // The part of the step in which nothing was done but wait for a link. 0 for no time at all.
  double exposed_share() const {
    const double waits = gather_wait_s + reduce_wait_s + exchange_wait_s;
    return total_s > 0.0 ? waits / total_s : 0.0;
  }
  void add(const StepTimes& other, double weight = 1.0);
};

// One stretch of time on one of a rank's two threads, seconds of the steady clock.
struct Span {
  Phase phase = Phase::compute;
  int unit = -1;             // of the near link's operations; -1: of no unit
  bool near_thread = false;  // on the communication thread; false: on the training thread
  std::uint64_t step = 0;
  double begin_s = 0.0;
  double end_s = 0.0;
};

// Gets every span as it ends, from both threads of a rank at any time; must not throw.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void span(const Span& span) noexcept = 0;
  // The training thread has ended step `index`.
  virtual void step_ended(std::uint64_t index) noexcept = 0;
};

}  // namespace thinwire
