// The inside of Trainer, in two files: trainer.cc (a step) and trainer_state.cc (where a run goes
// on, and the state that sites give each other).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/core/fit.h"
#include "src/core/timeline.h"
#include "src/core/unit_store.h"
#include "src/core/wrap.h"
#include "thinwire/trainer.h"

namespace thinwire {

class Trainer::Body {
 public:
  Body(Model& model, Collective& near, Optimizer& optimizer, Sync& sync, TrainerOptions options)
      : model_(model),
        near_(near),
        optimizer_(optimizer),
        sync_(sync),
        options_(checked(std::move(options))),
        traits_(optimizer.traits()),
        timeline_(options_.site.spans),
        layout_(wrapped(model.parameters(), options_.site.wrap), options_.chunking),
        shard_(layout_, options_.site.sharding == Sharding::none ? 0 : near.rank(),
               parts_of(near, options_.site), traits_.states, traits_.whole_matrices,
               traits_.on_device ? options_.device : Device()),
        units_(model, shard_, near, options_.seed, options_.site, timeline_, options_.device) {
    options_.schedule.validate();
    options_.site.validate();
    check_fit(traits_, optimizer, sync, near, options_);
    if (traits_.meeting != Meeting::nothing) sync_.open(dialect());
    if (options_.start) {
      Progress from = options_.start(shard_);
      guard_.go_on(from.guard);
      go_on(std::move(from));
    }
    if (options_.states && options_.states->enters_late()) take_over();
  }

  StepReport step();
  std::uint64_t agreement() const;

  Model& model_;
  Collective& near_;
  Optimizer& optimizer_;
  Sync& sync_;
  TrainerOptions options_;
  Traits traits_;
  Timeline timeline_;
  Layout layout_;
  Shard shard_;
  UnitStore units_;
  LossGuard guard_{options_.guard.spike};
  std::uint64_t index_ = 0;
  std::uint64_t round_ = 0;  // rounds before that step
  std::uint64_t skipped_ = 0;
  double compute_s_ = 0.0;  // of recent steps, where the method wants to know
  bool took_over_ = false;
  bool spoken_ = false;                // this step was, before the program was started again
  bool applying_ = false;              // from what was heard to the end of the step
  std::uint64_t repaired_before_ = 0;  // rounds below were said before the last repair

 private:
  static TrainerOptions checked(TrainerOptions options) {
    require(options.device);
    return options;
  }
  Dialect dialect() const;
  StepReport one_step();
  void go_on(Progress progress);
  void take_over();
  std::vector<InFlight> unheard(std::vector<InFlight> known) const;
  bool speaks(std::uint64_t step) const;
  bool hears(std::uint64_t step) const;
  std::uint64_t state_number() const;
  void offer_state();
  Bytes pack() const;
  void compare_ranks();
  void note_time(const StepTimes& times);
  bool missed(const Step& step);
  Update compute(const Step& step, StepReport& report);
  float pass(Step step);
  void clip(double norm);
  Update extract(Step step, StepReport& report);
  std::string objection(const Step& step, float loss);
  Heard exchange(const Step& step, Update mine, StepReport& report);
  void repair(const Step& step, const Heard& heard);
  Update apply(Step step, const Heard& heard, StepReport& report);
};

}  // namespace thinwire
