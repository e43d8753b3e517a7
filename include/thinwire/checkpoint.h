// A run's state on disk (checkpoint_writer.h writes it; docs/checkpoints.md tells the files),
// verified before use and readable for any number of ranks and sites.
//
//   const FoundCheckpoint found = newest_checkpoint("saved");
//   options.start = [&](Shard& shard) { return found.checkpoint->load(seat, shard, optimizer); };
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/trainer.h"

namespace thinwire {

using RunSettings = std::map<std::string, std::string>;

// What becomes of the residuals of sites that no longer exist. fold: the others take them over, so
// that the mean of what is owed stays; sites that are new start with that mean. drop: they are
// lost, new sites start at zero.
enum class Residuals { fold, drop };

// Whose state: `site` counts within saved_sites.
struct Seat {
  int site = 0;
  int rank = 0;
};

struct NewSeat {
  int site = 0;  // within saved_sites
  int saved_sites = 1;
  int sites = 1;  // of the run
  Residuals residuals = Residuals::fold;
};

struct SavedTensor {
  std::string file;
  std::string name;
  std::string type;  // of safetensors: F32, U8
  std::vector<std::size_t> shape;
  std::uint64_t hash = 0;
};

// One published checkpoint, judged when it was opened: every file, tensor and checksum. Immutable;
// safe to share between threads.
class Checkpoint {
 public:
  // Why it cannot be used names the file, and what was expected and found.
  static Result<Checkpoint> open(const std::filesystem::path& dir);

  const std::filesystem::path& path() const;
  std::uint64_t step() const;  // the next to be done
  const RunSettings& run() const;
  int sites() const;        // of the run
  int saved_sites() const;  // whose residuals are here
  int ranks() const;
  const Layout& layout() const;
  const std::vector<StateSpec>& states() const;
  std::vector<SavedTensor> tensors() const;
  std::uint64_t bytes() const;  // of all files

  // Fills the shard, of any number of ranks, and says where to go on. With other sites than saved,
  // what was in flight is taken back first. Throws UsageError when model or optimizer differ.
  Progress load(const NewSeat& seat, Shard& shard, Optimizer& optimizer) const;
  // What the seat's link gave to be saved, for as many ranks; else nothing.
  Bytes link(Seat seat, int ranks) const;
  // All values of a parameter, frozen ones too.
  std::vector<float> parameter(const std::string& name) const;

 private:
  class Body;
  explicit Checkpoint(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;
};

struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;  // the newest valid one
  std::vector<std::string> skipped;      // newer ones and why they cannot be used, newest first
};

// Published checkpoints in `dir`, newest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& dir);
FoundCheckpoint newest_checkpoint(const std::filesystem::path& dir);
// The first setting that differs, "lr is 0.001 there and 0.002 here", or nothing.
std::string difference(const RunSettings& saved, const RunSettings& here);

}  // namespace thinwire
