#include "apps/plan_flags.h"

#include <algorithm>
#include <array>

#include "thinwire/error.h"

namespace thinwire::app {

PlanFlags::PlanFlags(CLI::App& app, CLI::App& compare)
    : cell_verb_(app.add_subcommand("plan-cell", "One run of a plan; compare --plan starts it")) {
  cell_verb_->group("");  // not in the help
  cell_verb_->add_option("--config", cell.config)->required();
  cell_verb_->add_option("--result", cell.result)->required();
  cell_verb_->add_option("--hash", cell.hash)->required();
  plan_ =
      compare.add_option("--plan", plan.file,
                         "TOML file of a whole experiment, with --out, --jobs and --json alone; "
                         "docs/experiments.md");
  jobs_ = compare.add_option("--jobs", plan.jobs, "With --plan: runs at a time (one a core)");
}

void PlanFlags::check(const CLI::App& compare) const {
  if (!wants_plan()) {
    if (jobs_->count() > 0) throw UsageError("--jobs is for --plan; give a plan, or leave it away");
    return;
  }
  constexpr std::array kAllowed{"--plan", "--jobs", "--out", "--json", "--help"};
  for (const CLI::Option* option : compare.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 ||
        std::find(kAllowed.begin(), kAllowed.end(), name) != kAllowed.end()) {
      continue;
    }
    throw UsageError(name +
                     " does not go with --plan, whose file holds all settings; give it "
                     "there, or leave --plan away");
  }
}

}  // namespace thinwire::app
