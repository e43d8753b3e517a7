// The command line: what was asked for, as one value. CLI11 stays behind this header.
#pragma once

#include <string>

#include "apps/hub_command.h"
#include "apps/inspect_command.h"
#include "apps/launch_command.h"
#include "apps/options.h"
#include "apps/plan_cell.h"
#include "apps/plan_command.h"
#include "apps/saving.h"
#include "apps/site_command.h"
#include "apps/status_command.h"

namespace thinwire::app {

enum class Verb {
  compare,
  plan,
  plan_cell,
  train,
  launch,
  optimizers,
  hub,
  keygen,
  status,
  inspect,
  exporting,
  done
};

struct CommandLine {
  Verb verb = Verb::done;  // done: help or version was printed
  FlatConfig config;       // file, then flags, then --set
  bool json = false;
  bool print_config = false;
  std::string text;  // the command as it was given
  HubCommand hub;
  StatusCommand status;
  LaunchCommand launch;
  SiteCommand site;  // of train
  SaveCommand save;  // likewise
  InspectCommand inspect;
  PlanCommand plan;
  CellCommand cell;
  ExportCommand exported;
  std::string keygen_file;
  bool log_json = false;  // of hub and train
};

// Throws UsageError for flags that are unknown, malformed or lack a value.
CommandLine parse_command_line(int argc, char** argv);

}  // namespace thinwire::app
