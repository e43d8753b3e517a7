// The flags of `thinwire launch`, and those of `train` for ranks as processes. Internal to the
// command line.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/launch_command.h"
#include "apps/near_variables.h"

namespace thinwire::app {

class NearFlags {
 public:
  // Adds a verb to `app` and flags to `train`; CLI11 keeps references into this object.
  NearFlags(CLI::App& app, CLI::App& train);
  NearFlags(const NearFlags&) = delete;
  NearFlags& operator=(const NearFlags&) = delete;

  bool wants_launch() const { return launch_verb_->parsed(); }

  LaunchCommand launch;
  NearCommand near;

 private:
  CLI::App* launch_verb_;
};

}  // namespace thinwire::app
