// Who this process is among the ranks that a launcher has started, from the variables that
// launchers set: `thinwire launch` and torchrun, mpirun (Open MPI), srun (Slurm).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace thinwire::app {

struct NearCommand {
  // gloo: a rank of several processes; loopback: ranks are threads; nccl: either, each with a
  // device
  std::string near = "auto";
  std::string far = "hub";   // gloo: the all-reduce between sites goes over it too
  std::string dir;           // that all ranks see, to meet in; empty: at MASTER_ADDR
  std::string interface;     // network between the ranks
  double timeout_s = 120.0;  // of every wait for another rank
};

struct RankPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those of this machine; without a variable the rank
  std::string master;  // address of rank 0; empty with a directory
  int master_port = 0;
  bool at_hub = false;  // the processes are one of the sites that meet at a hub
};

// Value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

// None: this process plays all ranks itself. Throws UsageError naming the variable and what it must
// be.
std::optional<RankPlace> rank_place(const NearCommand& command, const Environment& environment);

}  // namespace thinwire::app
