// The flags of `thinwire train --save`, `inspect` and `export`. Internal to the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/inspect_command.h"
#include "apps/saving.h"

namespace thinwire::app {

class SaveFlags {
 public:
  // Adds verbs to `app` and flags to `train`; CLI11 keeps references into this object.
  SaveFlags(CLI::App& app, CLI::App& train);
  SaveFlags(const SaveFlags&) = delete;
  SaveFlags& operator=(const SaveFlags&) = delete;

  bool wants_inspect() const { return inspect_verb_->parsed(); }
  bool wants_export() const { return export_verb_->parsed(); }

  SaveCommand save;
  InspectCommand inspect;
  ExportCommand exported;

 private:
  CLI::App* inspect_verb_;
  CLI::App* export_verb_;
};

}  // namespace thinwire::app
