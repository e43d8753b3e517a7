#include "apps/near_nccl.h"

#include <fmt/format.h>

#include <string>

#include "apps/timeouts_command.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

NcclOptions options_for(const NearCommand& command, int site, Device device) {
  NcclOptions options;
  options.name = fmt::format("site-{}", site);
  options.device = device;
  options.deadline = milliseconds_of("--near-timeout", command.timeout_s);
  return options;
}

}  // namespace

void check_nccl(const NearCommand& command, const std::optional<RankPlace>& place,
                const RunOptions& options, int sites_here) {
  if (!wants_nccl(command)) return;
  if (!cuda_problem().empty()) {
    throw UsageError("--near nccl needs a CUDA device for each rank, or take another --near: " +
                     cuda_problem());
  }
  if (!options.device.cuda) {
    throw UsageError("--near nccl is between devices; give --device cuda, or another --near");
  }
  try {
    NcclClique(1);
  } catch (const UsageError& error) {
    throw UsageError(std::string("--near nccl: ") + error.what());
  }
  const int wanted = sites_here * options.ranks;
  if (place || wanted <= cuda_devices()) return;
  throw UsageError(
      fmt::format("--near nccl: {} sites of {} ranks are {} devices, one each, and there are {}; "
                  "give fewer --sites and --ranks, or take --near loopback",
                  sites_here, options.ranks, wanted, cuda_devices()));
}

NcclOptions nccl_options(const NearCommand& command, Device device, int site,
                         double connect_timeout_s) {
  NcclOptions options = options_for(command, site, device);
  options.connect_timeout = milliseconds_of("--connect-timeout", connect_timeout_s);
  return options;
}

NcclThreads::NcclThreads(const NearCommand& command, const DeviceChoice& devices, int sites,
                         int ranks)
    : command_(command),
      devices_(devices),
      ranks_(ranks),
      nears_(static_cast<std::size_t>(sites) * ranks) {
  for (int site = 0; site < sites; ++site) cliques_.push_back(std::make_unique<NcclClique>(ranks));
}

void NcclThreads::connect(int site, int rank, Collective& control) {
  const std::size_t at = index(site, rank);
  nears_[at] = std::make_unique<NcclNear>(*cliques_[site], control,
                                          options_for(command_, site, devices_.of(at)));
}

void NcclThreads::fail(const std::string& why) {
  for (const auto& clique : cliques_) clique->fail(why);
}

}  // namespace thinwire::app
