// The plug-in interface: two verbs. An optimizer never sees bytes, peers, threads or clocks, and
// keeps everything it remembers in named states of the shard; checkpoints, joins and replica hashes
// then need no code of its own. Called from the training thread only.
//
// One step of a run, for every rank:
//
//   point = gradient_point(step, shard)   where the gradient is taken
//
//   mine  = extract(step, shard)          once the site's mean gradient is in shard.grad()
//
//   reply = apply(step, shard, heard)     with what all sites said `age` steps ago
//
// The floats that apply writes (parameters, replicated states) must be equal to the bit on every
// site: a function of step, shard and heard alone, in site order, without libm calls.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "thinwire/shard.h"
#include "thinwire/step.h"
#include "thinwire/types.h"
#include "thinwire/update.h"

namespace thinwire {

// reduce:  dense updates; apply hears one contribution, the mean over the sites that spoke.
// gather:  apply hears every site's update as it was said.
// nothing: sites never talk (a baseline: one site alone).
enum class Meeting { reduce, gather, nothing };

struct Traits {
  Meeting meeting = Meeting::gather;
  bool whole_matrices = false;  // each block lies in one shard (orthogonalisation, low rank)
  int delay = 0;                // steps between extract and the apply that hears it
  int phases = 1;              // exchanges in a step, the same at all sites; more: gather, no delay
  float suggested_lr = 1e-3f;  // peak learning rate that suits small models, where none is given
  std::vector<StateSpec> states = {};
  UpdateForm form = {};     // of its updates; what comes from outside is judged by it
  bool wants_time = false;  // in Step::compute_s
  // It touches the floats of a shard through kernels.h, *_kernels.h and device.h alone, so that the
  // shard may lie where the model does. The shard of any other method lies on the host.
  bool on_device = false;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;

  // May updates of that step be other than empty? A function of step.index and step.sites alone. In
  // a step that does not speak no round is exchanged; extract and apply are called as in any other
  // step, the latter once and with what was said `delay` steps before, if that step spoke.
  virtual bool speaks(const Step& step) const;

  // Folds grad() into the states; returns what the others must hear, which may be empty. Not called
  // in a step whose gradient is not finite on some rank of the site.
  virtual Update extract(const Step& step, Shard& shard) = 0;

  // Moves the parameters by what was heard, in site order, own update included; `heard` is empty
  // when nobody spoke. Called in each phase of the step (step.phase); what it returns, perhaps
  // nothing, is said in the next one (PowerSGD), and in the last phase it is empty.
  virtual Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) = 0;

  // The round of step `said` closed without us: what was said is owed again. Nothing is unheard
  // when nothing was said: the step was skipped or missed, and extract was not called. The default
  // suits methods that owe nothing (the gradient of a missed step is gone).
  virtual void take_back(const Step& said, Shard& shard, const Update& unheard);

  // Where the next gradient is taken: the parameters, or a displaced copy of them in a state.
  // Parameters themselves are never moved and undone.
  virtual Floats gradient_point(const Step& step, Shard& shard);
};

// How many of the steps before `step` speak: what its round is numbered, should it have one.
std::uint64_t rounds_before(const Optimizer& optimizer, std::uint64_t step, int sites);

}  // namespace thinwire
