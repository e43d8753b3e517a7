// A finished comparison as files: report.html, curves.csv, summary.json, config.toml. Their columns
// and keys are documented in docs/compare.md and are for other programs to rely on.
#pragma once

#include <filesystem>
#include <string>

#include "apps/out_dir.h"
#include "apps/results.h"
#include "apps/table.h"

namespace thinwire::app {

// An array of one object a method, in order; a figure that is not a number is null. Ends with a
// newline.
std::string summary_json(const CompareResult& result);

// method,seed,step,loss,bytes_up,modelled_s; one line an evaluation.
std::string curves_csv(const CompareResult& result);

// Writes the four files into `dir`, all or none; throws Error naming the file that could not be
// written.
void write_report(const CompareResult& result, const std::filesystem::path& dir);

}  // namespace thinwire::app
