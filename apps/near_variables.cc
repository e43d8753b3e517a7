#include "apps/near_variables.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

// What a launcher calls its variables.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local;  // rank among those of the machine
};

constexpr Names kPlain{"thinwire launch or torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                     "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Names kSlurm{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

int number_in(const Environment& environment, const char* name, int low, int high) {
  const std::string_view text = environment(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw UsageError(fmt::format("{} is '{}'; it must be a whole number{}", name, text,
                                 high == std::numeric_limits<int>::max()
                                     ? fmt::format(" of {} or more", low)
                                     : fmt::format(" from {} to {}", low, high)));
  }
  return value;
}

// A batch script of Slurm has the variables of its tasks without being one: only srun starts those.
std::optional<Names> names_set(const Environment& environment, bool asked) {
  for (const Names& names : {kPlain, kMpi, kSlurm}) {
    const bool rank = environment(names.rank) != nullptr;
    const bool size = environment(names.size) != nullptr;
    if (!rank && !size) continue;
    const bool srun = environment("SLURM_STEP_ID") != nullptr;
    if (names.rank == kSlurm.rank && !srun && !asked) continue;
    if (rank && size) return names;
    throw UsageError(fmt::format("{} is set but {} is not; {} sets both",
                                 rank ? names.rank : names.size, rank ? names.size : names.rank,
                                 names.launcher));
  }
  return std::nullopt;
}

void find_master(RankPlace& place, const Names& names, const Environment& environment) {
  // Where torchrun's agent keeps a store of its own at MASTER_PORT, the next port is taken.
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  const int above = agent != nullptr && std::string_view(agent) == "True" ? 1 : 0;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') continue;
    const char* hint = names.rank == kMpi.rank
                           ? "mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=PORT passes it on"
                           : "all ranks need the address of rank 0";
    throw UsageError(fmt::format(
        "{} is not set; {}; or give --near-dir, or --near loopback to play all ranks here", name,
        hint));
  }
  place.master = environment("MASTER_ADDR");
  place.master_port = number_in(environment, "MASTER_PORT", 1, 65'535 - above) + above;
}

}  // namespace

std::optional<RankPlace> rank_place(const NearCommand& command, const Environment& environment) {
  const bool asked = command.near == "gloo";
  const bool open = command.near == "auto" || command.near == "nccl";  // threads or processes
  if (!asked && !open && command.near != "loopback") {
    throw UsageError("--near is auto, loopback, gloo or nccl, not '" + command.near + "'");
  }
  if (command.far != "hub" && command.far != "gloo") {
    throw UsageError("--far is hub or gloo, not '" + command.far + "'");
  }
  if (command.near == "loopback") return std::nullopt;
  const std::optional<Names> names = names_set(environment, asked);
  if (!names) {
    if (!asked) return std::nullopt;
    throw UsageError(
        "--near gloo needs RANK and WORLD_SIZE, or the like; start it with thinwire launch, "
        "torchrun, mpirun or srun");
  }
  RankPlace place;
  place.size = number_in(environment, names->size, 1, std::numeric_limits<int>::max());
  place.rank = number_in(environment, names->rank, 0, place.size - 1);
  place.local_rank = place.rank;
  if (environment(names->local) != nullptr) {
    place.local_rank = number_in(environment, names->local, 0, place.size - 1);
  }
  if (place.size == 1 && !asked) return std::nullopt;
  if (place.size > 1 && command.dir.empty()) find_master(place, *names, environment);
  return place;
}

}  // namespace thinwire::app
