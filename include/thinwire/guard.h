// What a trainer does about steps in which a site's loss or gradient makes no sense.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// skip:      the site says nothing in that step; the others go on
//
// stop:      Trainer::step throws Spike: the run ends, what was saved before stays
//
// roll_back: likewise; whoever owns the run goes back to a checkpoint and gives the step in `skip`
enum class GuardPolicy { skip, stop, roll_back };

struct GuardOptions {
  GuardPolicy policy = GuardPolicy::skip;
  // A loss is a spike when it is that many times further above its running mean than losses are on
  // average, after kGuardWarmup steps; 0: losses are not judged. Gradients that are not finite
  // always are.
  float spike = 0.0f;
  std::vector<std::uint64_t> skip = {};  // steps in which this site says nothing
  // The ranks of the site compare what they gather before every so many steps, and throw Error
  // naming unit and rank where it differs; 0: never.
  std::uint64_t compare_every = 0;
};

inline constexpr int kGuardWarmup = 20;

struct Spike : Error {
  Spike(const std::string& why, std::uint64_t at) : Error(why), step(at) {}
  std::uint64_t step;
};

// Of one site. Every rank asks with the same losses, the site's means.
class LossGuard {
 public:
  struct Usual {
    int seen = 0;
    double mean = 0.0;       // running, of losses
    double deviation = 0.0;  // running, of their distance from the mean

    bool operator==(const Usual&) const = default;
  };
  explicit LossGuard(float spike) : spike_(spike) {}
  // Is it a spike? One is not folded into what is usual.
  bool is_spike(float loss);
  const Usual& usual() const { return usual_; }  // goes into checkpoints
  void go_on(const Usual& usual) { usual_ = usual; }

 private:
  float spike_;
  Usual usual_;
};

}  // namespace thinwire
