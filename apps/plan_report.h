// A finished plan as files: report.html, report.txt, result.json. Their keys are documented in
// docs/experiments.md and are for other programs to rely on.
#pragma once

#include <filesystem>
#include <string>

#include "apps/plan_plot.h"
#include "apps/plan_result.h"

namespace thinwire::app {

// One object; a figure that is not a number is null. Ends with a newline.
std::string plan_json(const PlanResult& result);

std::string plan_html(const PlanResult& result);

// Writes the three files into `dir`, all or none.
void write_plan_report(const PlanResult& result, const std::filesystem::path& dir);

}  // namespace thinwire::app
