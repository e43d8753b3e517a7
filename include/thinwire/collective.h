// The near link: arithmetic between the ranks of one site (or, for the all-reduce baseline, between
// the ranks that own the same part at all sites). All members call the same operations in the same
// order with the same sizes. Every call blocks until done or until the transport's deadline, then
// throws Error naming who is missing and in which operation. One thread per member at a time.
#pragma once

#include <cstddef>
#include <span>

#include "thinwire/types.h"

namespace thinwire {

// size() + 1 ascending offsets; member m owns floats [cuts[m], cuts[m + 1]); parts may be empty.
using Cuts = std::span<const std::size_t>;

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // mine = mean over members, in member order, of this member's part of `whole`; `mine` may lie
  // inside `whole`, in its own place.
  virtual void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) = 0;
  // whole = every member's `mine`, each in its part. `mine` may lie inside `whole`, in its own
  // place.
  virtual void all_gather(ConstFloats mine, Floats whole, Cuts cuts) = 0;
  // whole = mean over members, equal bits on all; each value is summed once, in member order.
  virtual void all_reduce_mean(Floats whole) = 0;
  virtual void broadcast(Floats data, int root) = 0;
  virtual void barrier() = 0;
  // parts = every member's floats of this member's part of `whole`, member after member. They are
  // carried, not computed with. What is here stands in for a transport that has nothing better: it
  // gathers everything.
  virtual void all_to_all(ConstFloats whole, Floats parts, Cuts cuts);

  // May floats lie on that device? All can work with the host's; `carries` is asked before a
  // device's are given.
  virtual bool carries(Device device) const { return device.is_host(); }

  // Members were compared before they could meet here: no need to do it again.
  virtual bool agreed() const { return false; }

  virtual Traffic traffic() const = 0;
};

}  // namespace thinwire
