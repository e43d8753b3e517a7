// What passes between a trainer and its sync. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/guard.h"
#include "thinwire/step.h"
#include "thinwire/update.h"

namespace thinwire {

// What both ends must know to read each other's updates; all that must match between sites is in
// `agreement` (Trainer::agreement).
struct Dialect {
  std::uint64_t agreement = 0;
  int part = 0;                                  // the rank: which shard of the model this is
  std::size_t floats = 0;                        // of the shard
  std::vector<std::uint32_t> tile_coefficients;  // of each tile of the shard
  UpdateForm form = {};                          // what updates may look like
};

struct Unheard {  // an update of ours that a closed round did not include
  Step said;
  Update update;
};

// What was said in a step whose result has not been applied yet; nothing, where it does not speak.
struct InFlight {
  Step step;
  std::uint64_t state_hash = 0;  // of the replica that it was made from; 0 says nothing
  Update update;

  bool operator==(const InFlight&) const = default;
};

// Where a rank is in its run; with its shard it is all that going on takes. In the middle of a step
// that has been said but not heard, the last in flight is of that step.
struct Progress {
  std::uint64_t step = 0;             // the next to be done
  std::uint64_t repaired_before = 0;  // rounds below were said before the last repair
  std::vector<InFlight> in_flight = {};
  LossGuard::Usual guard = {};

  bool spoken() const { return !in_flight.empty() && in_flight.back().step.index == step; }
};

struct Heard {
  std::vector<Contribution> contributions;  // ascending sites; empty updates are left out
  std::vector<Unheard> unheard;             // to be taken back
  // Sites that held another replicated state than most when they spoke; where there is no majority,
  // another one than this site. The same at all sites if there is one.
  std::vector<int> diverged;
  int of_most = -1;  // the lowest site that held what most held; -1: no majority
  int age = 0;       // steps since these updates were extracted
};

}  // namespace thinwire
