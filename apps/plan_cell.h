// One run of a plan: what determines it, what it found out, its file. Cells run in processes of
// their own, `thinwire plan-cell`, so that one that crashes costs no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/options.h"
#include "apps/results.h"

namespace thinwire::app {

enum class CellStatus {
  trained,
  diverged,  // ended with a loss that is not finite, or no better than it began
  failed     // ended without a result
};
std::string to_string(CellStatus status);

struct CellResult {
  CellStatus status = CellStatus::failed;
  std::string reason;   // of a failure, one line
  MethodResult method;  // with one seed; of a failed cell empty
  std::uint64_t parameters = 0;
  double ring_bytes = 0.0;
  std::string model, data, link, machine;
  std::string program;  // hash of the program's file
  double wall_s = 0.0;

  double loss() const { return method.loss; }
  const SeedResult& seed() const { return method.seeds.front(); }
};

// What determines a cell's losses: resolved settings, the bytes of the text, the program's version.
// Where the text lies is not part of it. 16 hex digits.
std::string cell_hash(const FlatConfig& config, std::uint64_t data_hash,
                      const OptimizerCatalog& catalog);

struct CellCommand {  // of `thinwire plan-cell`
  std::string config;
  std::string result;
  std::string hash;
};

// Trains and writes the result by rename.
void run_cell(const CellCommand& command, const OptimizerCatalog& catalog,
              const std::atomic<bool>& stop);

// The cell in the file; nothing when there is none, or one of another hash. A file that cannot be
// understood counts as one of another hash. `stale`: there was one.
std::optional<CellResult> read_cell(const std::filesystem::path& path, const std::string& hash,
                                    bool& stale);

}  // namespace thinwire::app
