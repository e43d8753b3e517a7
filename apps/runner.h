// Trains one method with one seed: on sites x ranks threads over loopback, or on the ranks of one
// site of a run between processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/near_process.h"
#include "apps/options.h"
#include "apps/saving.h"
#include "apps/trace.h"
#include "models/text.h"
#include "transports/zmq.h"

namespace thinwire::app {

struct Evaluation {
  std::uint64_t step = 0;  // steps done
  double loss = 0.0;       // held out
  double bytes_up = 0.0;   // of a site since the start, mean over sites
};

struct RunResult {
  std::vector<Evaluation> curve;
  std::uint64_t parameters = 0;  // trainable
  double first_loss = 0.0;       // of site 0 in the first step, on its own windows
  std::uint64_t hash = 0;        // of the replicated state, equal on all sites
  double bytes_up = 0.0;         // per site and step
  double bytes_down = 0.0;
  double compute_s = 0.0;  // per rank and step
  double tokens_per_s = 0.0;
  double peak_mb = 0.0;
  StepTimes times;  // of a step, mean over steps and ranks
  std::uint64_t skipped = 0;
  Traits traits;
  std::string unsaved;  // why the last checkpoint is not on the disk, or nothing
};

struct Job {
  const RunOptions& options;
  const MethodSpec& method;
  std::uint64_t seed = 1;
  const Text& text;
  const OptimizerCatalog& catalog;
  // Called from one of the training threads after each step of site 0: steps done, its loss.
  std::function<void(std::uint64_t, double)> progress;
  const std::atomic<bool>& stop;      // set: leave at the next common step
  ZmqLink* link = nullptr;            // this process is one site of a run over it; none: all sites
  NearProcess* process = nullptr;     // this process is one rank of the run; none: all ranks
  Saving* saving = nullptr;           // none: nothing is saved
  std::uint64_t until = 0;            // leave after that step; 0: after the last one
  Trace* trace = nullptr;             // none: no trace
  const NearCommand* nccl = nullptr;  // ranks that are threads meet over NCCL; none: loopback
};

Traits traits_of(const MethodSpec& method, const OptimizerCatalog& catalog);

// Throws Error when a rank fails or replicas end with different bits, Interrupted after a stop.
RunResult run(const Job& job);

}  // namespace thinwire::app
