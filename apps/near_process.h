// This process as one rank of a run whose ranks are processes: its links, and what the ranks tell
// each other beside the training. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/near_variables.h"
#include "apps/options.h"
#include "transports/gloo.h"
#include "transports/nccl.h"
#include "transports/site_relay.h"

namespace thinwire::app {

// Ranks and sites as the launcher's number of processes makes them, where the settings leave them
// open. Throws UsageError where the two contradict each other.
void fit_to_place(FlatConfig& config, const NearCommand& command, const RankPlace& place);

// The signal that another rank told of as it stopped; 0 before that.
int heard_signal();

class NearProcess {
 public:
  // Returns when all ranks have met. `agreed`: the settings that they must share.
  NearProcess(const NearCommand& command, const RankPlace& place, const RunOptions& options,
              double connect_timeout_s, const std::string& agreed);

  bool first() const { return world_.rank() == 0; }  // the one that reports
  int site() const { return relay_ ? relay_->site() : world_.rank() / ranks_; }
  int rank() const { return world_.rank() % ranks_; }  // in its site
  int local_rank() const { return local_rank_; }       // on its machine

  Collective& near() { return nccl_ ? static_cast<Collective&>(*nccl_) : *near_; }
  // Between the ranks with this number at all sites: over Gloo, or through the hub.
  Collective& far() { return relay_ ? relay_->collective() : *far_; }
  Exchange* exchange() { return relay_ ? &relay_->exchange() : nullptr; }
  // Rank 0 has dialled the hub (null on the others, who wait for it).
  void relay(ZmqLink* link);

  // At a hub: see SiteRelay::save_rounds. Nothing where there is none.
  std::optional<Bytes> save_rounds(std::uint64_t from) {
    if (!relay_) return std::nullopt;
    return relay_->save_rounds(from);
  }

  // Has any rank been told to stop, as this one? All ranks of all sites ask at the same time. The
  // signal that told them is then heard_signal() here too.
  bool any(bool mine);
  // Do all ranks of all sites say the same?
  bool all_equal(std::uint64_t mine);
  // What each rank of this site says, in their order; all say equally much.
  std::vector<std::vector<double>> share(const std::vector<double>& mine);

 private:
  GlooWorld world_;
  int ranks_;  // of a site
  int local_rank_;
  std::unique_ptr<Collective> all_;
  std::unique_ptr<Collective> near_;
  std::unique_ptr<Collective> far_;
  std::unique_ptr<Collective> through_;  // for the relay alone
  std::unique_ptr<SiteRelay> relay_;
  std::unique_ptr<Collective> control_;  // of NCCL
  std::unique_ptr<NcclClique> clique_;
  std::unique_ptr<NcclNear> nccl_;
};

}  // namespace thinwire::app
