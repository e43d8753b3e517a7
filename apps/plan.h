// An experiment as a file (docs/experiments.md): methods with grids of settings, the seeds they are
// tuned and shown on, sizes, expectations. Read strictly into one value; whatever can be refused is
// refused here, with line and column, before the first run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/options.h"

namespace thinwire::app {

inline constexpr std::size_t kReportSeedsMax = 31;  // quantiles are there for 30 degrees of freedom

// One cell of a grid.
struct PlanPoint {
  float lr = 0.0f;
  std::map<std::string, std::string> settings;  // of the grid, without lr
  bool operator==(const PlanPoint&) const = default;
};
std::string describe(const PlanPoint& point);  // "beta1=0.9 lr=0.004"

struct PlanMethod {
  std::string label;
  std::string method;      // as in --methods, presets written out
  std::vector<float> lrs;  // ascending, at least one
  std::vector<std::pair<std::string, std::vector<std::string>>> grid;  // of further settings
  bool extend = false;             // go on by factors of 2 while the best rate is at an edge
  bool alone = false;              // one site with its part of the batch, no communication
  bool added = false;              // a baseline that the file does not list
  std::vector<std::string> sizes;  // at these only; empty: at all
};

struct PlanSize {
  std::string name;
  FlatConfig config;  // run.*, model.*, schedule.*
  int sites = 1;
  int batch = 1;
  std::uint64_t steps = 0;
  std::uint64_t parameters = 0;
};

// What must hold of method `a`, at one size or at all.
struct Expectation {
  std::string name;  // "mural against adamw: gap at most -0.03"
  std::string a;
  std::string b;  // what a gap and equal hashes are measured against
  std::string size;
  std::optional<double> max_gap;
  std::optional<double> min_gap;
  std::optional<double> max_loss;
  std::optional<double> min_loss;
  std::optional<double> max_bytes_up;  // of a site and step
  std::string hash;                    // of the first report seed
  bool same_hash = false;              // as b, for every report seed
};

struct Plan {
  std::string name;
  std::string text;  // of the file
  std::vector<std::uint64_t> tune_seeds;
  std::vector<std::uint64_t> report_seeds;
  std::vector<PlanSize> sizes;
  std::vector<PlanMethod> methods;
  std::vector<Expectation> expectations;
  std::vector<std::string> notes;  // baselines that are left out, and why
};

// Throws UsageError with line and column.
Plan read_plan(const std::filesystem::path& path, const OptimizerCatalog& catalog);

std::uint64_t parameters_of(const GptOptions& model);  // that are trained

// Settings of one run: a size, a method, a point of its grid, a seed.
FlatConfig cell_config(const PlanSize& size, const PlanMethod& method, const PlanPoint& point,
                       std::uint64_t seed);

// Every point of the grid, learning rates last.
std::vector<PlanPoint> grid_points(const PlanMethod& method);

bool takes_part(const PlanMethod& method, const PlanSize& size);

}  // namespace thinwire::app
