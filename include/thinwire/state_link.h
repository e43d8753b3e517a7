// How a replica comes to a site that enters a run under way, or that the run has left too far
// behind. The replicated state of a rank (parameters and replicated optimizer state, as they are at
// the start of a step) is opaque bytes, the same on every site; sites that have it give it while
// they go on training.
//
// One thread per member: that of the rank. Every rank of a site calls the same members in the same
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire {

// Thrown by collect and by the far all_reduce_mean, for the same round on all ranks of the site:
// what is here is of no use to the run any more. StateLink::take gives another state.
struct Outdated : Error {
  using Error::Error;
};

// States are numbered in rounds: one of number n lacks the results of the last rounds before n, as
// many as the method's delay, and all after them. With a round in every step n is the step.
struct RunState {
  std::uint64_t step = 0;  // the number
  Bytes bytes;             // of this rank
};

class StateLink {
 public:
  virtual ~StateLink() = default;

  // Did this site enter a run under way? Then it takes the state over before its first step.
  virtual bool enters_late() const = 0;
  // Waits until the whole site has it. The last `in_flight` rounds before its number are not in it:
  // the method's delay. Throws Error when nobody gives it.
  virtual RunState take(int in_flight) = 0;

  // The rank is at the start of a step that applies a round, with the state of that number. `pack`
  // copies it: now, or while the rank waits for the round; another site may need it. Valid until
  // the next call.
  virtual void at_step(std::uint64_t step, std::function<Bytes()> pack) = 0;
  // This site has learnt that its replica differs from that of most: the next collect throws
  // Outdated.
  virtual void give_up_replica(const std::string& why) = 0;
};

}  // namespace thinwire
