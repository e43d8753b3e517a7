#include "apps/near_flags.h"

namespace thinwire::app {

NearFlags::NearFlags(CLI::App& app, CLI::App& train)
    : launch_verb_(
          app.add_subcommand("launch", "Start and watch the ranks of a run as processes")) {
  launch_verb_->add_option("--ranks", launch.ranks, "How many")->required();
  launch_verb_->add_option("--port", launch.port, "MASTER_PORT of the ranks (a free one)");
  launch_verb_->add_option("--grace", launch.grace_s,
                           "Seconds in which the others may end when one has failed (5)");
  launch_verb_->add_option("COMMAND", launch.run, "After --: program and arguments of each rank");
  train.add_option("--near", near.near,
                   "Ranks are threads (loopback) or processes (gloo); auto: as RANK and WORLD_SIZE "
                   "or the like say; nccl: as these say, each with a CUDA device (auto)");
  train.add_option(
      "--far", near.far,
      "Between sites: a hub (--hub), or gloo for an all-reduce of all processes (hub)");
  train.add_option("--near-dir", near.dir,
                   "Directory that all ranks see, to meet in (default: at MASTER_ADDR)");
  train.add_option("--near-interface", near.interface,
                   "Network between the ranks, as eth0 (the one to MASTER_ADDR)");
  train.add_option("--near-timeout", near.timeout_s,
                   "Seconds after which a rank that does not answer is given up (120)");
}

}  // namespace thinwire::app
