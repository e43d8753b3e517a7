// The order of events of a step, one rank's view. Everything it is given must outlive it. Training
// thread only; all ranks of a site call the same members in the same order.
//
//   Trainer trainer(model, near, *optimizer, sync, {.schedule = {.peak = 3e-3f, .steps = 1000}});
//   while (trainer.steps_done() < 1000) StepReport report = trainer.step();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/device.h"
#include "thinwire/guard.h"
#include "thinwire/model.h"
#include "thinwire/optimizer.h"
#include "thinwire/schedule.h"
#include "thinwire/shard.h"
#include "thinwire/site_options.h"
#include "thinwire/state_link.h"
#include "thinwire/sync.h"

namespace thinwire {

struct TrainerOptions {
  Schedule schedule;
  int sites = 1;
  std::uint64_t seed = 1;  // of the initial weights
  Chunking chunking = Chunking::padded;
  Device device = {};         // where the model works; throws UsageError unless it can be used
  std::string settings = {};  // resolved optimizer settings; part of the agreement
  // Where the state comes from when this site enters late or falls far behind, and goes to when
  // others do. None: it can do neither.
  StateLink* states = nullptr;
  // Goes on from a saved state: fills the shard and says where it was (checkpoint.h).
  std::function<Progress(Shard&)> start = {};
  SiteOptions site = {};
  GuardOptions guard = {};
};

struct StepReport {
  std::uint64_t index = 0;
  float loss = 0.0f;  // of this rank's part of the batch, before the step; NaN when caught_up
  float lr = 0.0f;
  double gradient_norm =
      0.0;  // of the site's gradient, unclipped; NaN when it was not finite, or caught_up
  bool skipped = false;       // this site had nothing finite to say
  bool caught_up = false;     // the round was over: this site applied it without a word of its own
  bool took_over = false;     // before this step the site took over the run's state: steps may lack
  int heard = 0;              // contributions applied: one a site, or the one mean of a reduce
  std::vector<int> diverged;  // sites whose replicated state differed when they spoke
  // CPU time of the training thread: model, optimizer, codec, and without prefetch the near sums;
  // waiting costs none.
  double compute_s = 0.0;
  double exchange_s = 0.0;  // wall time in the far exchange
  StepTimes times;          // wall time by phase
};

class Trainer {
 public:
  // Throws UsageError when model, optimizer and sync do not fit together.
  Trainer(Model& model, Collective& near, Optimizer& optimizer, Sync& sync, TrainerOptions options);
  ~Trainer();

  StepReport step();
  std::uint64_t steps_done() const;
  std::uint64_t rounds_done() const;  // of the steps done those that speak

  // With the shard all that going on takes: between two steps, and after one whose wait for the
  // others has failed (an exception of collect). Nothing when it failed in the middle of apply.
  std::optional<Progress> progress() const;

  Shard& shard();
  const Shard& shard() const;
  // Values of the frozen parameters of a unit, on every rank.
  ConstFloats frozen(int unit) const;
  const Layout& layout() const;
  // The parameters, for evaluation; leases as in training.
  Units& units();
  // Hash of parameters and replicated state, equal on all sites after every step. Collective.
  std::uint64_t state_hash();
  // Hash of all that sites must agree on: layout, optimizer, settings, protocol.
  std::uint64_t agreement() const;
  // Times this site said nothing: its gradient was not finite, or its guard was against it.
  std::uint64_t skipped() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire
