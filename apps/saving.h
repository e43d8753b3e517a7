// What `thinwire train --save DIR` keeps and goes on from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "models/text.h"
#include "thinwire/checkpoint.h"
#include "thinwire/checkpoint_writer.h"

namespace thinwire::app {

struct SaveCommand {
  std::string dir;          // empty: nothing is saved
  std::uint64_t every = 0;  // steps; 0: as often as evaluations
  int keep = 3;
  std::uint64_t keep_every = 0;
  bool resume = false;
  std::string residuals = "fold";
  std::uint64_t until = 0;  // leave after that step; 0: all of them
};

// Throws UsageError for flags that make no sense together.
void check_saving(const SaveCommand& command, const RunOptions& options);

// Everything of a run that must be the same to go on from its checkpoints. The number of sites and
// ranks may differ, and the number of steps.
RunSettings settings_to_keep(const RunOptions& options, const Text& text);

// Of one process. Used by all of its ranks' threads.
class Saving {
 public:
  // `saved_sites`: all of the run, or one. `only_rank`: the others are processes of their own, and
  // rank 0 opens it first. Says from where it goes on, and what was skipped. Throws
  // UsageError when the directory holds another run, or one that nobody asked to go on with.
  Saving(const SaveCommand& command, const RunOptions& options, const Text& text, int saved_sites,
         std::optional<int> only_rank = {});

  const Checkpoint* from() const { return found_ ? &*found_ : nullptr; }
  Progress load(int site, Shard& shard, Optimizer& optimizer) const;
  // Loads give the newest valid checkpoint from now on; its step, 0: there is none.
  std::uint64_t roll_back();
  bool due(std::uint64_t step) const { return step % every_ == 0; }
  // Every rank; a step's state is saved once.
  // `link`: what the far link gives to be kept, see ZmqLink::save_rounds.
  void save(Seat seat, const Trainer& trainer, Bytes link = {});
  std::vector<Bytes> rounds() const;  // likewise, by rank
  // Where the run can be gone on with, "saved at step 300 in DIR; ...", once the disk has it.
  std::string finish();
  void give_up();  // a rank has failed: nobody waits for its part

 private:
  const char* about_residuals() const;

  const std::string dir_;
  const std::uint64_t every_;
  const int saved_sites_;
  const int sites_;
  const int ranks_;  // that save: without sharding the first one has all
  const Residuals residuals_;
  CheckpointOptions writing_;
  std::optional<Checkpoint> found_;
  std::optional<CheckpointWriter> writer_;
};

}  // namespace thinwire::app
