// `thinwire launch`: the ranks of a run as processes of this machine, started and watched together.
#pragma once

#include <string>
#include <vector>

namespace thinwire::app {

struct LaunchCommand {
  int ranks = 0;
  int port = 0;                  // MASTER_PORT; 0: one that is free
  double grace_s = 5.0;          // from asking the others to end to ending them
  std::vector<std::string> run;  // program and arguments, of each rank
};

// Starts them with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set,
// puts "[rank r] " before each line that they print, and passes SIGINT and SIGTERM on. When one
// fails the others are ended. None outlives this process; where it is killed, the kernel ends its
// direct children alone, so a command that is a script must `exec` the program. Returns the exit
// code: that of the rank that failed first, 128 + N for one that signal N ended. Throws UsageError,
// Error.
int launch(const LaunchCommand& command);

}  // namespace thinwire::app
