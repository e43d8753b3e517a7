#include "apps/save_flags.h"

namespace thinwire::app {

SaveFlags::SaveFlags(CLI::App& app, CLI::App& train)
    : inspect_verb_(app.add_subcommand("inspect", "Show what a directory of checkpoints holds")),
      export_verb_(app.add_subcommand("export", "Write a checkpoint's model as one file")) {
  train.add_option("--save", save.dir, "Directory for checkpoints; none: nothing is saved");
  train.add_option("--save-every", save.every, "Steps between checkpoints (as --eval-every)");
  train.add_option("--keep", save.keep, "Checkpoints that are kept, the last ones (3)");
  train.add_option("--keep-every", save.keep_every,
                   "Keep also those of every so many steps (none)");
  train.add_flag("--resume", save.resume, "Go on from the newest valid checkpoint in --save");
  train.add_option("--residuals", save.residuals,
                   "Of sites that no longer exist: fold into the others, or drop (fold)");
  train.add_option("--until", save.until,
                   "Leave after that step; the schedule spans --steps all the same");
  for (const char* flag :
       {"--save", "--save-every", "--keep", "--keep-every", "--residuals", "--until"}) {
    train.get_option(flag)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  inspect_verb_->add_option("DIR", inspect.dir, "Of a run, or one checkpoint in it")->required();
  inspect_verb_->add_flag("--json", inspect.json, "Print it as JSON");
  export_verb_->add_option("DIR", exported.dir, "Of a run (its newest one), or one checkpoint")
      ->required();
  export_verb_->add_option("FILE", exported.file, "model.safetensors, to be written")->required();
}

}  // namespace thinwire::app
