// A plan's result as people read it: grids for page and terminal, and all of it as text.
#pragma once

#include <string>
#include <vector>

#include "apps/plan_result.h"
#include "apps/table.h"

namespace thinwire::app {

std::string interval_text(const Interval& interval);              // "-0.0312 +- 0.0021"
std::string seeds_text(const std::vector<std::uint64_t>& seeds);  // "seeds 11, 12, 13"

Grid gap_grid(const PlanResult& result, const PlanSizeResult& size);
Grid wire_grid(const PlanSizeResult& size);    // bytes and modelled time
Grid chosen_grid(const PlanSizeResult& size);  // what the tuning chose, and whether at an edge
Grid tuning_grid(const PlanSizeResult& size);  // every point of every grid
std::string size_heading(const PlanSizeResult& size);

// What the columns mean and how they were made. Sentences, no line breaks.
std::vector<std::string> plan_notes(const PlanResult& result);
// Methods whose best rate is the last one tried, failed runs: what a reader must not miss.
std::vector<std::string> plan_warnings(const PlanResult& result);
std::string verdict_text(const Verdict& verdict);

// Lines of at most kTableColumns.
std::string plan_table(const PlanResult& result);

}  // namespace thinwire::app
