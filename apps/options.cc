#include "apps/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
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

// Settings from optimizer.NAME.*, then from the entry itself.
MethodSpec read_method(const std::string& label, const FlatConfig& config,
                       const OptimizerCatalog& catalog) {
  MethodSpec method;
  method.label = label;
  const std::vector<std::string> parts = split(label, ':');
  method.name = parts[0];
  catalog.row(method.name);
  method.settings = below(config, "optimizer." + method.name);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos) {
      throw UsageError("method '" + label + "': '" + parts[i] + "' is not KEY=VALUE");
    }
    method.settings[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
  }
  std::string lr;
  if (const auto found = method.settings.find("lr"); found != method.settings.end()) {
    lr = found->second;
    method.settings.erase(found);
  }
  Settings settings(method.name, method.settings);
  const Traits traits = catalog.make(method.name, settings)->traits();
  method.lr = lr.empty() ? traits.suggested_lr : read_lr(label, lr);
  method.settings = settings.resolved();
  return method;
}

std::vector<MethodSpec> read_methods(const std::string& list, const FlatConfig& config,
                                     const OptimizerCatalog& catalog) {
  std::vector<MethodSpec> methods;
  std::set<std::string> seen;
  for (const std::string& label : split(list, ',')) {
    if (!seen.insert(label).second) {
      throw UsageError("method '" + label +
                       "' is given twice; name each once, or give the second "
                       "other settings, as in distro,distro:delay=1");
    }
    methods.push_back(read_method(label, config, catalog));
  }
  for (const auto& [key, value] : below(config, "optimizer")) {
    catalog.row(key.substr(0, key.find('.')));
  }
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

bool is_plain(const std::string& value) {
  if (value == "true" || value == "false") return true;
  double number = 0.0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return !value.empty() && error == std::errc() && end == value.data() + value.size();
}

void write_table(std::string& toml, const std::string& name,
                 const std::map<std::string, std::string>& values) {
  toml += "[" + name + "]\n";
  for (const auto& [key, value] : values) {
    std::string quoted;
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    toml += key + " = " + (is_plain(value) ? value : "\"" + quoted + "\"") + "\n";
  }
  toml += "\n";
}

}  // namespace

std::string describe(const MethodSpec& method) {
  std::string text;
  for (const auto& [key, value] : method.settings) text += key + "=" + value + " ";
  char lr[32];
  *std::to_chars(lr, lr + sizeof lr - 1, method.lr).ptr = '\0';
  return text + "lr=" + lr;
}

RunOptions resolve(const FlatConfig& config, const OptimizerCatalog& catalog) {
  check_sections(config);
  RunOptions options;
  Settings run("run", below(config, "run"));
  options.data = run.text("data", "");
  options.out = run.text("out", "out");
  const std::string methods = run.text("methods", "adamw,demo,distro");
  options.sites = run.integer("sites", options.sites, 1, 1024);
  options.ranks = run.integer("ranks", options.ranks, 1, 1024);
  options.threads = run.integer("threads", options.threads, 1, 1024);
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
  run.finish();
  if (options.batch % (options.sites * options.ranks) != 0) {
    throw UsageError("run: batch " + std::to_string(options.batch) +
                     " must divide by sites x ranks, " +
                     std::to_string(options.sites * options.ranks));
  }
  Settings model("model", below(config, "model"));
  options.model = read_model(model, options.preset);
  options.model.threads = options.threads;
  options.model.validate();
  Settings schedule("schedule", below(config, "schedule"));
  options.schedule = read_schedule(schedule, options.steps);
  options.methods = read_methods(methods, config, catalog);

  write_table(options.config, "run", run.resolved());
  write_table(options.config, "model", model.resolved());
  write_table(options.config, "schedule", schedule.resolved());
  std::set<std::string> written;
  for (const MethodSpec& method : options.methods) {
    const auto given = below(config, "optimizer." + method.name);
    if (!given.empty() && written.insert(method.name).second) {
      write_table(options.config, "optimizer." + method.name, given);
    }
  }
  for (const MethodSpec& method : options.methods) {
    options.config += "# " + method.label + ": " + describe(method) + "\n";
  }
  return options;
}

}  // namespace thinwire::app
