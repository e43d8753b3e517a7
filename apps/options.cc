#include "apps/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "thinwire/error.h"
#include "thinwire/settings.h"

namespace thinwire::app {
namespace {

constexpr int kMax = std::numeric_limits<int>::max();

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The shortest text that reads back to the same value.
std::string shortest(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// The keys below `section.`, without it.
std::map<std::string, std::string> below(const FlatConfig& config, const std::string& section) {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : config) {
    if (name.starts_with(section + ".")) found[name.substr(section.size() + 1)] = value;
  }
  return found;
}

void check_sections(const FlatConfig& config) {
  const std::vector<std::string> known{"model", "optimizer", "run", "schedule"};
  for (const auto& [name, value] : config) {
    const std::string section = name.substr(0, name.find('.'));
    const bool bare = section.size() == name.size();
    if (!bare && std::find(known.begin(), known.end(), section) != known.end()) continue;
    throw UsageError("config: unknown setting '" + name + "'; " +
                     (bare ? "settings have the form run.steps, model.layers, optimizer.distro.k"
                           : "did you mean a setting of '" + nearest(section, known) + "'?"));
  }
}

float read_lr(const std::string& method, const std::string& text) {
  float lr = 0.0f;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lr);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(lr) || lr <= 0) {
    throw UsageError(method + ": the learning rate must be a number above 0, got '" + text + "'");
  }
  return lr;
}

// Settings under optimizer.* by owner: a name ("distro", for every entry of it) or one entry's
// label
// ("distro:delay=1"). Keys hold no dot, so the last one ends the owner.
using Tables = std::map<std::string, std::map<std::string, std::string>>;

Tables optimizer_tables(const FlatConfig& config) {
  Tables tables;
  for (const auto& [name, value] : below(config, "optimizer")) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) {
      throw UsageError("config: unknown setting 'optimizer." + name +
                       "'; settings of a method have the form optimizer.distro.k");
    }
    tables[name.substr(0, dot)][name.substr(dot + 1)] = value;
  }
  return tables;
}

void lay_over(std::map<std::string, std::string>& settings, const Tables& tables,
              const std::string& owner) {
  const auto found = tables.find(owner);
  if (found == tables.end()) return;
  for (const auto& [key, value] : found->second) settings[key] = value;
}

// The narrower wins: settings of the name, then those in the entry itself, then those of its label.
MethodSpec read_method(const std::string& label, const Tables& tables,
                       const OptimizerCatalog& catalog) {
  MethodSpec method;
  method.label = label;
  const std::vector<std::string> parts = split(label, ':');
  method.name = parts[0];
  catalog.row(method.name);
  lay_over(method.settings, tables, method.name);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos) {
      throw UsageError("method '" + label + "': '" + parts[i] +
                       "' is not KEY=VALUE; write it as in distro:delay=1");
    }
    method.settings[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
  }
  if (label != method.name) lay_over(method.settings, tables, label);
  std::optional<float> lr;
  if (const auto found = method.settings.find("lr"); found != method.settings.end()) {
    lr = read_lr(label, found->second);
    method.settings.erase(found);
  }
  Settings settings(method.name, method.settings);
  const Traits traits = catalog.make(method.name, settings)->traits();
  method.lr = lr.value_or(traits.suggested_lr);
  method.settings = settings.resolved();
  return method;
}

std::vector<std::string> entries(const std::string& list) {
  std::vector<std::string> labels;
  for (const std::string& part : split(list, ',')) {
    const std::size_t begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) {
      throw UsageError("methods '" + list +
                       "': an entry is empty; give names with one comma between, as in "
                       "adamw,distro");
    }
    labels.push_back(part.substr(begin, part.find_last_not_of(' ') + 1 - begin));
  }
  return labels;
}

// A table of a method that does not take part is judged too: a config file may serve many runs.
std::vector<MethodSpec> read_methods(const std::string& list, const FlatConfig& config,
                                     const OptimizerCatalog& catalog) {
  const Tables tables = optimizer_tables(config);
  std::vector<MethodSpec> methods;
  std::set<std::string> seen;
  for (const std::string& label : entries(list)) {
    if (!seen.insert(label).second) {
      throw UsageError("method '" + label +
                       "' is given twice; name each once, or give the second "
                       "other settings, as in distro,distro:delay=1");
    }
    methods.push_back(read_method(label, tables, catalog));
  }
  for (const auto& [owner, table] : tables) read_method(owner, tables, catalog);
  return methods;
}

GptOptions read_model(Settings& settings, std::string& preset) {
  preset = settings.text("preset", "nano");
  GptOptions model = GptOptions::preset(preset);
  const auto size = [&](std::string_view key, std::size_t fallback, int low) {
    return static_cast<std::size_t>(
        settings.integer(key, static_cast<int>(fallback), low, 1 << 20));
  };
  model.layers = size("layers", model.layers, 1);
  model.width = size("width", model.width, 1);
  model.heads = size("heads", model.heads, 1);
  model.context = size("context", model.context, 1);
  model.mlp_ratio = size("mlp_ratio", model.mlp_ratio, 1);
  model.positions =
      settings.choice("positions", model.positions == Positions::rotary ? "rotary" : "learned",
                      {"learned", "rotary"}) == "rotary"
          ? Positions::rotary
          : Positions::learned;
  model.activation =
      settings.choice("activation", model.activation == Activation::swiglu ? "swiglu" : "gelu",
                      {"gelu", "swiglu"}) == "swiglu"
          ? Activation::swiglu
          : Activation::gelu;
  model.tied_head = settings.flag("tied_head", model.tied_head);
  model.bias = settings.flag("bias", model.bias);
  model.recompute = settings.flag("recompute", model.recompute);
  const std::string frozen = settings.text("frozen", "");
  if (!frozen.empty()) model.frozen = split(frozen, ',');
  settings.finish();
  return model;
}

Schedule read_schedule(Settings& settings, std::uint64_t steps) {
  Schedule schedule;
  schedule.shape = parse_schedule_shape(settings.text("shape", "cosine"));
  schedule.steps = steps;
  schedule.warmup = settings.integer("warmup", static_cast<int>(steps / 20), 0, kMax);
  schedule.floor = static_cast<float>(settings.number("floor", 0.1, 0.0, 1.0));
  schedule.decay = static_cast<float>(settings.number("decay", 0.2, 0.0, 1.0));
  settings.finish();
  schedule.validate();
  return schedule;
}

SiteOptions read_inside(Settings& run) {
  SiteOptions inside;
  inside.sharding = parse_sharding(run.text("sharding", to_string(inside.sharding)));
  inside.wrap = parse_wrap(run.text("wrap", "unit"));
  inside.gather = parse_near_type(run.text("gather", to_string(inside.gather)));
  inside.reduce = parse_near_type(run.text("reduce", to_string(inside.reduce)));
  inside.accumulate = run.integer("accumulate", inside.accumulate, 1, 1 << 20);
  inside.clip = static_cast<float>(run.number("clip", inside.clip, 0.0, 1e18));
  inside.prefetch = run.flag("prefetch", inside.prefetch);
  return inside;
}

GuardOptions read_guard(Settings& run) {
  const std::string policy = run.choice("guard", "skip", {"skip", "stop", "rollback"});
  GuardOptions guard;
  guard.policy = policy == "skip"   ? GuardPolicy::skip
                 : policy == "stop" ? GuardPolicy::stop
                                    : GuardPolicy::roll_back;
  guard.spike = static_cast<float>(run.number("spike", 0.0, 0.0, 1e6));
  guard.compare_every = static_cast<std::uint64_t>(run.integer("compare_every", 0, 0, kMax));
  return guard;
}

// Evaluations are kept until the end; more of them than this fill memory, not insight.
constexpr std::uint64_t kEvaluationsMax = 100'000;

void check_run(const RunOptions& options) {
  const std::int64_t parts = std::int64_t{options.sites} * options.ranks;
  if (options.batch % parts != 0) {
    throw UsageError("run: batch " + std::to_string(options.batch) +
                     " must divide by sites x ranks, " + std::to_string(parts));
  }
  if (options.batch % (parts * options.inside.accumulate) != 0) {
    throw UsageError("run: batch " + std::to_string(options.batch) +
                     " must divide by sites x ranks x accumulate, " +
                     std::to_string(parts * options.inside.accumulate));
  }
  if (options.inside.sharding == Sharding::none && options.sites > 1 && options.ranks > 1) {
    throw UsageError(
        "run: sharding none is for one site, or for one rank a site; take optimizer, gradient or "
        "full");
  }
  if (options.steps / options.eval_every > kEvaluationsMax) {
    throw UsageError("run: eval_every " + std::to_string(options.eval_every) +
                     " is too often for " + std::to_string(options.steps) + " steps; make it " +
                     std::to_string(options.steps / kEvaluationsMax + 1) + " or more");
  }
}

std::string resolved_toml(const std::vector<const Settings*>& sections,
                          const std::vector<MethodSpec>& methods) {
  std::string toml;
  for (const Settings* section : sections) {
    toml += toml_table({section->owner()}, section->resolved());
  }
  for (const MethodSpec& method : methods) {
    std::map<std::string, std::string> values = method.settings;
    values["lr"] = shortest(method.lr);
    toml += toml_table({"optimizer", method.label}, values);
  }
  return toml;
}

}  // namespace

std::string describe(const MethodSpec& method) {
  std::string text;
  for (const auto& [key, value] : method.settings) text += key + "=" + value + " ";
  return text + "lr=" + shortest(method.lr);
}

bool takes_part(const std::string& owner, const std::string& methods) {
  for (const std::string& label : entries(methods)) {
    if (owner == label || owner == label.substr(0, label.find(':'))) return true;
  }
  return false;
}

RunOptions resolve(const FlatConfig& given, const OptimizerCatalog& catalog) {
  FlatConfig config = given;
  check_sections(config);
  const auto device = config.find("run.device");
  config["run.device"] = resolved_device(device == config.end() ? "auto" : device->second);
  RunOptions options;
  Settings run("run", below(config, "run"));
  options.data = run.text("data", "");
  options.out = run.text("out", "out");
  const std::string methods = run.text("methods", kDefaultMethods);
  options.sites = run.integer("sites", options.sites, 1, 1024);
  options.ranks = run.integer("ranks", options.ranks, 1, 1024);
  options.threads = run.integer("threads", options.threads, 1, 1024);
  options.device = parse_device(run.text("device", "cpu"));
  options.steps = run.integer("steps", static_cast<int>(options.steps), 1, kMax);
  options.seed = run.integer("seed", 1, 0, kMax);
  options.seeds = run.integer("seeds", options.seeds, 1, 1000);
  options.batch = run.integer("batch", options.batch, 1, 1 << 20);
  options.eval_every = run.integer(
      "eval_every", static_cast<int>(std::max<std::uint64_t>(1, options.steps / 20)), 1, kMax);
  options.eval_windows = run.integer("eval_windows", options.eval_windows, 1, 1 << 20);
  options.link = parse_link(run.text("link", "100mbit,50ms"));
  options.chunking = run.choice("chunking", "padded", {"padded", "divisor"}) == "divisor"
                         ? Chunking::divisor
                         : Chunking::padded;
  options.inside = read_inside(run);
  options.guard = read_guard(run);
  options.trace = run.text("trace", "");
  run.finish();
  check_run(options);
  Settings model("model", below(config, "model"));
  options.model = read_model(model, options.preset);
  options.model.threads = options.threads;
  options.model.validate();
  Settings schedule("schedule", below(config, "schedule"));
  options.schedule = read_schedule(schedule, options.steps);
  options.methods = read_methods(methods, config, catalog);

  options.config = resolved_toml({&run, &model, &schedule}, options.methods);
  return options;
}

}  // namespace thinwire::app
