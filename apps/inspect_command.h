// `thinwire inspect` and `thinwire export`: what a directory of checkpoints holds.
#pragma once

#include <string>

namespace thinwire::app {

struct InspectCommand {
  std::string dir;  // of a run, or one checkpoint in it
  bool json = false;
};

struct ExportCommand {
  std::string dir;   // likewise; of a run: the newest valid one
  std::string file;  // safetensors, to be written
};

// Prints steps with their verdicts, or the tensors of one checkpoint. Throws Error when none is
// valid.
void run_inspect(const InspectCommand& command);

// Writes all parameters whole, under the names of GPT-2's published files.
void run_export(const ExportCommand& command);

}  // namespace thinwire::app
