#include "apps/rank_result.h"

#include <malloc.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <string>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

double peak_memory_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    double kib = 0.0;
    status >> kib;
    return kib / 1024.0;
  }
  return 0.0;
}

}  // namespace

// Linux keeps the highest resident size of a process and forgets it on request.
void forget_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::vector<double> to_numbers(const RankResult& rank, const Losses& losses) {
  std::vector<double> numbers{static_cast<double>(rank.traffic.bytes_sent),
                              static_cast<double>(rank.traffic.bytes_received),
                              static_cast<double>(rank.traffic.refused),
                              rank.compute_s,
                              rank.train_s,
                              static_cast<double>(rank.steps),
                              static_cast<double>(rank.steps_here),
                              std::bit_cast<double>(rank.hash),
                              static_cast<double>(rank.skipped),
                              static_cast<double>(rank.parameters),
                              rank.times.compute_s,
                              rank.times.gather_wait_s,
                              rank.times.reduce_wait_s,
                              rank.times.extract_s,
                              rank.times.exchange_wait_s,
                              rank.times.apply_s,
                              rank.times.total_s};
  numbers.insert(numbers.end(), rank.bytes_up.begin(), rank.bytes_up.end());
  for (const auto& row : losses) numbers.insert(numbers.end(), row.begin(), row.end());
  return numbers;
}

void from_numbers(const std::vector<double>& numbers, RankResult& rank, Losses& losses) {
  auto next = numbers.begin();
  const auto count = [&] { return static_cast<std::uint64_t>(*next++); };
  rank.traffic.bytes_sent = count();
  rank.traffic.bytes_received = count();
  rank.traffic.refused = count();
  rank.compute_s = *next++;
  rank.train_s = *next++;
  rank.steps = count();
  rank.steps_here = count();
  rank.hash = std::bit_cast<std::uint64_t>(*next++);
  rank.skipped = count();
  rank.parameters = count();
  StepTimes& times = rank.times;
  for (double* seconds :
       {&times.compute_s, &times.gather_wait_s, &times.reduce_wait_s, &times.extract_s,
        &times.exchange_wait_s, &times.apply_s, &times.total_s}) {
    *seconds = *next++;
  }
  for (double& bytes : rank.bytes_up) bytes = *next++;
  for (auto& row : losses) {
    for (double& loss : row) loss = *next++;
  }
}

RunResult sum_up(const std::vector<RankResult>& ranks, int sites, const RunOptions& options,
                 const std::string& label) {
  RunResult result;
  const double site_steps =
      static_cast<double>(std::max<std::uint64_t>(1, ranks[0].steps_here)) * sites;
  double train_s = 0.0;
  for (const RankResult& rank : ranks) {
    if (rank.hash != ranks[0].hash) {
      throw Error(label + ": replicas ended with different bits; this is a defect");
    }
    result.bytes_up += static_cast<double>(rank.traffic.bytes_sent) / site_steps;
    result.bytes_down += static_cast<double>(rank.traffic.bytes_received) / site_steps;
    result.compute_s += rank.compute_s / (site_steps * options.ranks);
    result.times.add(rank.times, 1.0 / (site_steps * options.ranks));
    result.skipped += rank.skipped;
    train_s = std::max(train_s, rank.train_s);
  }
  result.skipped /= static_cast<std::uint64_t>(options.ranks);
  result.hash = ranks[0].hash;
  result.parameters = ranks[0].parameters;
  result.tokens_per_s = static_cast<double>(ranks[0].steps_here) * options.batch *
                        static_cast<double>(options.model.context) / std::max(train_s, 1e-9);
  result.peak_mb = peak_memory_mb();
  return result;
}

}  // namespace thinwire::app
