// What the ranks of a run found out, and what follows from it for the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/runner.h"

namespace thinwire::app {

// What one rank found out; read after its thread has ended.
struct RankResult {
  // At each evaluation; negative: a site that entered later, or was left behind, made none there.
  std::vector<double> bytes_up;
  Traffic traffic;
  double compute_s = 0.0;
  double train_s = 0.0;
  std::uint64_t steps = 0;       // of the run
  std::uint64_t steps_here = 0;  // that this rank took part in or applied
  std::uint64_t hash = 0;
  std::uint64_t skipped = 0;
  std::uint64_t parameters = 0;
  double first_loss = 0.0;  // of the first step here, of its own windows
  StepTimes times;          // sums
};

using Losses = std::vector<std::vector<double>>;

// All of it as one row of numbers, and back: a rank of another process tells it so.
std::vector<double> to_numbers(const RankResult& rank, const Losses& losses);
void from_numbers(const std::vector<double>& numbers, RankResult& rank, Losses& losses);

// Means over sites and steps, without the curve. Throws Error when replicas ended with different
// bits. `label` names the method.
RunResult sum_up(const std::vector<RankResult>& ranks, int sites, const RunOptions& options,
                 const std::string& label);

void forget_peak_memory();

}  // namespace thinwire::app
