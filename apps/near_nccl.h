// The near link over NCCL as `thinwire train --near nccl` uses it: which device a rank takes, and
// what is missing for that.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "apps/near_variables.h"
#include "apps/options.h"
#include "transports/nccl.h"

namespace thinwire::app {

inline bool wants_nccl(const NearCommand& command) { return command.near == "nccl"; }

// Throws UsageError where NCCL, or a device for each rank that is played here, is missing.
// `sites_here`: that this process plays.
void check_nccl(const NearCommand& command, const std::optional<RankPlace>& place,
                const RunOptions& options, int sites_here);

// Of a rank that is a process.
NcclOptions nccl_options(const NearCommand& command, Device device, int site,
                         double connect_timeout_s);

// Ranks that are threads, each with a device of its own: those of all sites, in their order. Any
// thread may ask for a rank's near link, the rank itself connects it.
class NcclThreads {
 public:
  NcclThreads(const NearCommand& command, const DeviceChoice& devices, int sites, int ranks);

  // In that rank's thread, all ranks of the site at the same time.
  void connect(int site, int rank, Collective& control);
  Collective& near(int site, int rank) { return *nears_[index(site, rank)]; }
  void fail(const std::string& why);

 private:
  std::size_t index(int site, int rank) const {
    return static_cast<std::size_t>(site) * ranks_ + rank;
  }

  const NearCommand command_;
  const DeviceChoice devices_;
  const int ranks_;
  std::vector<std::unique_ptr<NcclClique>> cliques_;  // by site
  std::vector<std::unique_ptr<NcclNear>> nears_;
};

}  // namespace thinwire::app
