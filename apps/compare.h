// `thinwire compare` and `thinwire train`: every method with every seed, then one report.
#pragma once

#include <atomic>
#include <string>

#include "apps/options.h"
#include "apps/results.h"
#include "apps/saving.h"
#include "apps/site_command.h"

namespace thinwire::app {

struct TrainCommand {  // of a single method
  SiteCommand site = {};
  SaveCommand save = {};
};

// Reads the text, checks or makes options.out, trains and measures. Progress goes to standard
// error. `command` is kept for the report.
CompareResult compare(const RunOptions& options, const OptimizerCatalog& catalog,
                      const std::string& command, const std::atomic<bool>& stop,
                      const TrainCommand& train = {});

}  // namespace thinwire::app
