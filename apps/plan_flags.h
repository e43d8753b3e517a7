// The flags of `thinwire compare --plan` and the verb that its runs are. Internal to the command
// line.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/plan_cell.h"
#include "apps/plan_command.h"

namespace thinwire::app {

class PlanFlags {
 public:
  // Adds a verb to `app` and flags to `compare`; CLI11 keeps references into this object.
  PlanFlags(CLI::App& app, CLI::App& compare);
  PlanFlags(const PlanFlags&) = delete;
  PlanFlags& operator=(const PlanFlags&) = delete;

  bool wants_cell() const { return cell_verb_->parsed(); }
  bool wants_plan() const { return plan_->count() > 0; }
  // Throws UsageError for a flag that a plan decides, and for --jobs without a plan.
  void check(const CLI::App& compare) const;

  PlanCommand plan;
  CellCommand cell;

 private:
  CLI::App* cell_verb_;
  CLI::Option* plan_;
  CLI::Option* jobs_;
};

}  // namespace thinwire::app
