// `thinwire compare --plan FILE`: an experiment from its file to its report.
#pragma once

#include <atomic>
#include <string>

#include "apps/plan.h"

namespace thinwire::app {

struct PlanCommand {
  std::string file;
  std::string out = "out";
  int jobs = 0;  // runs at a time; 0: one a core
  bool json = false;
};

// Runs what is not in `out` yet, writes the report, prints the table or the JSON. Throws Error,
// once all of that is done, when runs failed or expectations are violated; Interrupted after a
// stop, which loses no finished run.
void run_plan(const PlanCommand& command, const OptimizerCatalog& catalog, const std::string& text,
              const std::atomic<bool>& stop);

}  // namespace thinwire::app
