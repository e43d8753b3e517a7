#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "apps/plan.h"
#include "apps/plan_presets.h"
#include "apps/plan_reader.h"
#include "apps/toml_text.h"
#include "thinwire/error.h"
#include "thinwire/settings.h"

namespace thinwire::app {
namespace {

constexpr std::size_t kLabelMax = 60;

class Reading {
 public:
  Reading(const std::filesystem::path& path, std::string text, const OptimizerCatalog& catalog)
      : reader_(path, parse_toml(text, path)), catalog_(catalog) {
    plan_.text = std::move(text);
  }

  Plan read() {
    const toml::table& root = reader_.root();
    reader_.check_keys(root,
                       {"name", "run", "model", "schedule", "seeds", "size", "method", "expect"});
    plan_.name = reader_.text(root, "name", "");
    if (plan_.name.empty()) {
      reader_.refuse(root.source(), "the plan has no name; begin it with name = \"...\"");
    }
    check_label(root, "name", plan_.name);
    read_seeds(root);
    read_sizes(root);
    for (const toml::table* entry : reader_.tables(root, "method")) read_method(*entry);
    if (plan_.methods.empty()) {
      reader_.refuse(root.source(),
                     "the plan has no method; add [[method]] with method = \"distro:k=16\"");
    }
    add_baselines(plan_, catalog_);
    for (const toml::table* entry : reader_.tables(root, "expect")) read_expectation(*entry);
    return std::move(plan_);
  }

 private:
  std::vector<std::uint64_t> seeds(const toml::table& table, const char* key,
                                   std::set<std::uint64_t>& seen) const {
    std::vector<std::uint64_t> all;
    for (const PlanReader::Item& item : reader_.list(table, key)) {
      std::uint32_t seed = 0;
      const char* end = item.text.data() + item.text.size();
      const auto [stop, error] = std::from_chars(item.text.data(), end, seed);
      if (error != std::errc() || stop != end || seed > 0x7fffffff) {
        reader_.refuse(item.place,
                       fmt::format("{} must be whole numbers from 0, got '{}'", key, item.text));
      }
      if (!seen.insert(seed).second) {
        reader_.refuse(item.place,
                       fmt::format("seed {} is there already; the seeds that methods are tuned on "
                                   "and shown on must all differ",
                                   seed));
      }
      all.push_back(seed);
    }
    if (all.empty()) {
      reader_.refuse(table.source(), fmt::format("there are no {} seeds; give them as in [seeds] "
                                                 "tune = 1, report = [11, 12, 13]",
                                                 key));
    }
    return all;
  }

  void read_seeds(const toml::table& root) {
    const toml::table* table = reader_.table(root, "seeds");
    if (table == nullptr) {
      reader_.refuse(root.source(),
                     "there are no seeds; add [seeds] with tune = 1 and report = [11, 12, 13]");
    }
    reader_.check_keys(*table, {"tune", "report"});
    std::set<std::uint64_t> seen;
    plan_.tune_seeds = seeds(*table, "tune", seen);
    plan_.report_seeds = seeds(*table, "report", seen);
    if (plan_.report_seeds.size() > kReportSeedsMax) {
      reader_.refuse(table->source(), fmt::format("report has {} seeds; give at most {}",
                                                  plan_.report_seeds.size(), kReportSeedsMax));
    }
  }

  RunOptions judge(const PlanSize& size) const {
    FlatConfig config = size.config;
    config["run.methods"] = kAdamw;
    RunOptions options = resolve(config, catalog_);
    if (options.guard.policy == GuardPolicy::roll_back) {
      throw UsageError("run: guard rollback needs checkpoints, which plans do not make; take skip");
    }
    return options;
  }

  // What a size does not say is looked for in the plan's own tables.
  void finish_size(PlanSize& size, const toml::table& own) {
    RunOptions options;
    try {
      options = judge(size);
    } catch (const UsageError& error) {
      auto place = reader_.place_of(own, error.what());
      if (!place) place = reader_.place_of(reader_.root(), error.what());
      reader_.refuse(place.value_or(own.source()), error.what());
    }
    if (size.name.empty()) size.name = options.preset;
    size.sites = options.sites;
    size.batch = options.batch;
    size.steps = options.steps;
    size.parameters = parameters_of(options.model);
    plan_.sizes.push_back(std::move(size));
  }

  void read_sizes(const toml::table& root) {
    FlatConfig common;
    reader_.settings(root, common);
    std::set<std::string> seen;
    for (const toml::table* entry : reader_.tables(root, "size")) {
      reader_.check_keys(*entry, {"name", "run", "model", "schedule"});
      PlanSize size{.name = reader_.text(*entry, "name", ""), .config = common};
      if (size.name.empty()) {
        reader_.refuse(entry->source(), "a size needs a name, as in name = \"0.8M\"");
      }
      check_label(*entry, "name", size.name);
      if (!seen.insert(size.name).second) {
        reader_.refuse(entry->get("name")->source(),
                       "two sizes are called '" + size.name + "'; give each a name of its own");
      }
      reader_.settings(*entry, size.config);
      finish_size(size, *entry);
    }
    if (!plan_.sizes.empty()) return;
    PlanSize only{.name = "", .config = common};
    finish_size(only, root);
  }

  void check_label(const toml::table& entry, const char* key, const std::string& label) const {
    const auto odd = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (label.size() <= kLabelMax && std::none_of(label.begin(), label.end(), odd)) return;
    const toml::node* node = entry.get(key);
    reader_.refuse(
        node != nullptr ? node->source() : entry.source(),
        fmt::format("this is no name for a table; give one line of at most {} letters", kLabelMax));
  }

  // Throws what the catalog says of it.
  RunOptions judge(const PlanMethod& method, const std::string& more = "") const {
    FlatConfig config = plan_.sizes.front().config;
    config["run.methods"] = method.method + more;
    RunOptions options = resolve(config, catalog_);
    if (options.methods.size() != 1) {
      throw UsageError("an entry holds one method; write a [[method]] for each");
    }
    return options;
  }

  void read_rates(const toml::table& entry, const toml::source_region& place, PlanMethod& method) {
    const float fallback = judge(method).methods.front().lr;
    for (const PlanReader::Item& item : reader_.list(entry, "lr")) {
      reader_.at(item.place, [&] {
        method.lrs.push_back(judge(method, ":lr=" + item.text).methods.front().lr);
      });
    }
    if (method.lrs.empty()) method.lrs = {fallback};
    std::sort(method.lrs.begin(), method.lrs.end());
    if (std::adjacent_find(method.lrs.begin(), method.lrs.end()) != method.lrs.end()) {
      reader_.refuse(place, "lr holds a rate twice; name each once");
    }
  }

  void read_grid(const toml::table& entry, PlanMethod& method) {
    const toml::table* grid = reader_.table(entry, "grid");
    if (grid == nullptr) return;
    for (const auto& [key, node] : *grid) {
      const std::string name(key.str());
      if (name == "lr") reader_.refuse(key.source(), "rates stand beside the grid: lr = [...]");
      std::vector<std::string> values;
      for (const PlanReader::Item& item : reader_.list(*grid, name)) {
        reader_.at(item.place, [&] { judge(method, ":" + name + "=" + item.text); });
        if (std::find(values.begin(), values.end(), item.text) != values.end()) {
          reader_.refuse(item.place, name + " holds " + item.text + " twice; name each once");
        }
        values.push_back(item.text);
      }
      method.grid.emplace_back(name, std::move(values));
    }
  }

  void read_where(const toml::table& entry, PlanMethod& method) {
    for (const PlanReader::Item& item : reader_.list(entry, "sizes")) {
      check_size(item.place, item.text);
      method.sizes.push_back(item.text);
    }
  }

  void read_method(const toml::table& entry) {
    reader_.check_keys(entry, {"label", "method", "lr", "grid", "extend", "sizes"});
    const std::string written = reader_.text(entry, "method", "");
    if (written.empty()) {
      reader_.refuse(entry.source(), "an entry needs a method, as in method = \"distro:k=16\"");
    }
    const toml::source_region place = entry.get("method")->source();
    PlanMethod method;
    method.label = reader_.text(entry, "label", written);
    method.method = expand_preset(written);
    method.extend = reader_.flag(entry, "extend");
    method.alone = is_alone(written);
    check_label(entry, "label", method.label);
    reader_.at(place, [&] { judge(method); });
    for (const PlanMethod& other : plan_.methods) {
      if (other.label != method.label) continue;
      reader_.refuse(entry.source(),
                     "two methods are called '" + method.label + "'; give each a label of its own");
    }
    if (is_baseline(method.label) && written.substr(0, written.find(':')) != method.label) {
      reader_.refuse(entry.source(), "the label '" + method.label +
                                         "' is that of a baseline; give this method another one");
    }
    if (entry.contains("sizes") && is_baseline(method.label)) {
      reader_.refuse(entry.get("sizes")->source(),
                     "'" + method.label + "' is a baseline and runs at every size");
    }
    read_rates(entry, place, method);
    read_grid(entry, method);
    read_where(entry, method);
    plan_.methods.push_back(std::move(method));
  }

  void check_size(const toml::source_region& place, const std::string& name) const {
    std::vector<std::string> names;
    for (const PlanSize& size : plan_.sizes) names.push_back(size.name);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    reader_.refuse(place,
                   "there is no size '" + name + "'; did you mean '" + nearest(name, names) + "'?");
  }

  void check_party(const toml::table& entry, const char* key, const std::string& label) const {
    std::vector<std::string> labels{kAveraging, kMuon};  // where the catalog lacks them
    for (const PlanMethod& method : plan_.methods) labels.push_back(method.label);
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) return;
    const toml::node* node = entry.get(key);
    reader_.refuse(
        node != nullptr ? node->source() : entry.source(),
        label.empty()
            ? fmt::format("an expectation needs {}, the label of a method", key)
            : "there is no method '" + label + "'; did you mean '" + nearest(label, labels) + "'?");
  }

  void read_expectation(const toml::table& entry) {
    reader_.check_keys(entry, {"a", "b", "size", "max_gap", "min_gap", "max_loss", "min_loss",
                               "max_bytes_up", "hash", "same_hash"});
    Expectation one{.name = "",
                    .a = reader_.text(entry, "a", ""),
                    .b = reader_.text(entry, "b", ""),
                    .size = reader_.text(entry, "size", ""),
                    .max_gap = reader_.number(entry, "max_gap"),
                    .min_gap = reader_.number(entry, "min_gap"),
                    .max_loss = reader_.number(entry, "max_loss"),
                    .min_loss = reader_.number(entry, "min_loss"),
                    .max_bytes_up = reader_.number(entry, "max_bytes_up"),
                    .hash = reader_.text(entry, "hash", ""),
                    .same_hash = reader_.flag(entry, "same_hash")};
    check_party(entry, "a", one.a);
    const bool pair = one.max_gap || one.min_gap || one.same_hash;
    if (pair || !one.b.empty()) check_party(entry, "b", one.b);
    if (!one.size.empty()) check_size(entry.get("size")->source(), one.size);
    if (!pair && !one.max_loss && !one.min_loss && !one.max_bytes_up && one.hash.empty()) {
      reader_.refuse(entry.source(),
                     "the expectation expects nothing; give max_gap, min_gap, max_loss, min_loss, "
                     "max_bytes_up, hash or same_hash");
    }
    one.name = one.a + (pair ? " against " + one.b : "");
    if (!one.size.empty()) one.name += " at size " + one.size;
    plan_.expectations.push_back(std::move(one));
  }

  PlanReader reader_;
  const OptimizerCatalog& catalog_;
  Plan plan_;
};

}  // namespace

Plan read_plan(const std::filesystem::path& path, const OptimizerCatalog& catalog) {
  return Reading(path, read_toml_file(path, "--plan", "give the path of a plan, a TOML file"),
                 catalog)
      .read();
}

}  // namespace thinwire::app
