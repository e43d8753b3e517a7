#include "apps/near_process.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "apps/near_nccl.h"
#include "apps/stop.h"
#include "apps/timeouts_command.h"
#include "thinwire/error.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

// Of the others with rank 0 of a site at a hub: it may stand still there for as long as other sites
// are away. That it is gone is known by its connection. It has no such patience with the others.
constexpr std::chrono::hours kPatience{24};

// What went wrong over NCCL is asked of the others no longer than this.
constexpr std::chrono::seconds kControlMost{30};

std::atomic<int> heard{0};

GlooOptions options_of(const NearCommand& command, const RankPlace& place, double connect_timeout_s,
                       const std::string& agreed) {
  GlooOptions options;
  options.rank = place.rank;
  options.size = place.size;
  options.directory = command.dir;
  // One rank alone meets nobody.
  options.master = command.dir.empty() && place.master.empty() ? "localhost" : place.master;
  options.master_port = std::max(1, place.master_port);
  options.interface = command.interface;
  options.connect_timeout = milliseconds_of("--connect-timeout", connect_timeout_s);
  options.deadline = milliseconds_of("--near-timeout", command.timeout_s);
  options.agreed = agreed;
  options.stop = &stop_flag();
  return options;
}

std::vector<int> every(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

int integer_in(const FlatConfig& config, const std::string& key) {
  const auto found = config.find(key);
  return found == config.end() ? 0 : std::atoi(found->second.c_str());
}

// As floats without arithmetic: every bit arrives.
std::vector<std::vector<double>> gather(Collective& group, const std::vector<double>& mine) {
  constexpr std::size_t kFloats = sizeof(double) / sizeof(float);
  const int ranks = group.size();
  const std::size_t part = mine.size() * kFloats;
  std::vector<float> whole(part * static_cast<std::size_t>(ranks));
  std::vector<std::size_t> cuts{0};
  for (int rank = 0; rank < ranks; ++rank) cuts.push_back(cuts.back() + part);
  const Floats own = Floats(whole).subspan(cuts[group.rank()], part);
  if (!mine.empty()) std::memcpy(own.data(), mine.data(), own.size_bytes());
  group.all_gather(own, whole, cuts);
  std::vector<std::vector<double>> said(ranks, std::vector<double>(mine.size()));
  for (int rank = 0; rank < ranks && !mine.empty(); ++rank) {
    std::memcpy(said[rank].data(), whole.data() + cuts[rank], part * sizeof(float));
  }
  return said;
}

}  // namespace

int heard_signal() { return heard; }

void fit_to_place(FlatConfig& config, const NearCommand& command, const RankPlace& place) {
  const bool at_hub = place.at_hub;
  if (at_hub && command.far == "gloo") {
    throw UsageError("--far gloo has no hub; leave --site and --hub away, or --far gloo");
  }
  if (!at_hub && !config.contains("run.sites")) config["run.sites"] = "1";
  const int sites = at_hub ? 1 : integer_in(config, "run.sites");
  if (!at_hub && command.far != "gloo" && sites != 1) {
    throw UsageError(fmt::format(
        "{} ranks as processes are one site; give --sites 1, --site and --hub, or --far gloo for "
        "an all-reduce between {} sites of them",
        place.size, config["run.sites"]));
  }
  if (sites < 1 || place.size % sites != 0) {
    throw UsageError(fmt::format("{} ranks cannot be divided evenly among --sites {}", place.size,
                                 config["run.sites"]));
  }
  const std::string ranks = std::to_string(place.size / sites);
  if (!config.contains("run.ranks")) config["run.ranks"] = ranks;
  if (config["run.ranks"] != ranks) {
    throw UsageError(
        fmt::format("--ranks {} of --sites {} is not what was started: {} ranks in all",
                    config["run.ranks"], config["run.sites"], place.size));
  }
}

NearProcess::NearProcess(const NearCommand& command, const RankPlace& place,
                         const RunOptions& options, double connect_timeout_s,
                         const std::string& agreed)
    : world_(options_of(command, place, connect_timeout_s, agreed)),
      ranks_(options.ranks),
      local_rank_(place.local_rank) {
  all_ = world_.group("all", every(0, 1, place.size));
  near_ = world_.group(fmt::format("site-{}", site()), every(site() * ranks_, 1, ranks_));
  const int sites = place.size / ranks_;  // that are here
  far_ = world_.group(fmt::format("part-{}", rank()), every(rank(), ranks_, sites));
  // Before rank 0 dials the hub, so that the others know when it does not come back from there.
  if (place.at_hub) {
    const auto deadline =
        first() ? std::nullopt : std::optional<std::chrono::milliseconds>(kPatience);
    through_ = world_.group("hub", every(0, 1, place.size), deadline);
  }
  if (wants_nccl(command)) {
    const Device device = options.device.of(static_cast<std::size_t>(local_rank_));
    const NcclOptions nccl = nccl_options(command, device, site(), connect_timeout_s);
    control_ = world_.group(fmt::format("nccl-{}", site()), every(site() * ranks_, 1, ranks_),
                            std::min<std::chrono::milliseconds>(nccl.deadline, kControlMost));
    clique_ = std::make_unique<NcclClique>(1);
    nccl_ = std::make_unique<NcclNear>(*clique_, *control_, nccl);
    if (first()) log_info("near: NCCL " + clique_->version());
  }
  if (first()) {
    log_info(fmt::format("near: {} ranks have met, {} sites of {}", place.size, sites, ranks_));
  }
}

void NearProcess::relay(ZmqLink* link) {
  TW_CHECK(through_ != nullptr);
  relay_ = std::make_unique<SiteRelay>(*through_, link);
}

bool NearProcess::any(bool mine) {
  // The flag comes before the number, by a moment.
  const int own = !mine ? 0 : stop_signal() != 0 ? stop_signal() : SIGTERM;
  int number = 0;
  for (const auto& said : gather(*all_, {static_cast<double>(own)})) {
    number = std::max(number, static_cast<int>(said[0]));
  }
  if (number != 0) heard = number;
  return number != 0;
}

bool NearProcess::all_equal(std::uint64_t mine) {
  for (const auto& said : gather(*all_, {std::bit_cast<double>(mine)})) {
    if (std::bit_cast<std::uint64_t>(said[0]) != mine) return false;
  }
  return true;
}

std::vector<std::vector<double>> NearProcess::share(const std::vector<double>& mine) {
  return gather(*near_, mine);
}

}  // namespace thinwire::app
