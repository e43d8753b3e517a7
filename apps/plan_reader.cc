#include "apps/plan_reader.h"

#include <algorithm>
#include <array>

#include "apps/toml_text.h"
#include "thinwire/error.h"
#include "thinwire/settings.h"

namespace thinwire::app {
namespace {

constexpr std::array<std::string_view, 3> kSections{"run", "model", "schedule"};

struct Own {
  const char* name;
  const char* instead;
};
constexpr Own kOwn[] = {
    {"run.out", "give --out on the command line"},
    {"run.methods", "methods are [[method]] tables"},
    {"run.seed", "seeds are in [seeds]: tune and report"},
    {"run.seeds", "seeds are in [seeds]: tune and report"},
    {"run.trace", "take a trace with thinwire compare --trace"},
};

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

}  // namespace

void PlanReader::refuse(const toml::source_region& at, const std::string& why) const {
  throw UsageError(place_text(path_, at) + ": " + why);
}

void PlanReader::at(const toml::source_region& place, const std::function<void()>& judge) const {
  try {
    judge();
  } catch (const UsageError& error) {
    refuse(place, error.what());
  }
}

void PlanReader::check_keys(const toml::table& table, const std::vector<std::string>& known) const {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    refuse(key.source(), "unknown key '" + name + "'; did you mean '" + nearest(name, known) +
                             "'? known here: " + quoted_list(known));
  }
}

const toml::table* PlanReader::table(const toml::table& in, std::string_view key) const {
  const toml::node* node = in.get(key);
  if (node == nullptr) return nullptr;
  if (node->as_table() == nullptr) {
    refuse(node->source(), std::string(key) + " must be a table, as [" + std::string(key) + "]");
  }
  return node->as_table();
}

std::vector<const toml::table*> PlanReader::tables(const toml::table& in,
                                                   std::string_view key) const {
  std::vector<const toml::table*> all;
  const toml::node* node = in.get(key);
  if (node == nullptr) return all;
  const std::string form =
      std::string(key) + " must be written [[" + std::string(key) + "]], once for each";
  if (node->as_array() == nullptr) refuse(node->source(), form);
  for (const toml::node& one : *node->as_array()) {
    if (one.as_table() == nullptr) refuse(one.source(), form);
    all.push_back(one.as_table());
  }
  return all;
}

std::string PlanReader::text(const toml::table& in, std::string_view key,
                             const std::string& fallback) const {
  const toml::node* node = in.get(key);
  if (node == nullptr) return fallback;
  if (node->as_string() == nullptr) {
    refuse(node->source(),
           std::string(key) + " must be a text, as " + std::string(key) + " = \"\"");
  }
  return node->as_string()->get();
}

bool PlanReader::flag(const toml::table& in, std::string_view key) const {
  const toml::node* node = in.get(key);
  if (node == nullptr) return false;
  if (node->as_boolean() == nullptr) {
    refuse(node->source(), std::string(key) + " must be true or false");
  }
  return node->as_boolean()->get();
}

std::optional<double> PlanReader::number(const toml::table& in, std::string_view key) const {
  const toml::node* node = in.get(key);
  if (node == nullptr) return std::nullopt;
  if (!node->is_number()) refuse(node->source(), std::string(key) + " must be a number");
  return node->value<double>();
}

std::vector<PlanReader::Item> PlanReader::list(const toml::table& in, std::string_view key) const {
  std::vector<Item> items;
  const toml::node* node = in.get(key);
  if (node == nullptr) return items;
  if (const toml::array* many = node->as_array()) {
    if (many->empty()) {
      refuse(node->source(), std::string(key) + " is empty; give at least one value");
    }
    for (const toml::node& one : *many) {
      if (one.is_array() || one.is_table()) {
        refuse(one.source(), std::string(key) + " must be a list of numbers, texts or flags");
      }
      at(one.source(), [&] {
        items.push_back({setting_text(one, std::string(key)), one.source()});
      });
    }
    return items;
  }
  at(node->source(), [&] {
    items.push_back({setting_text(*node, std::string(key)), node->source()});
  });
  return items;
}

void PlanReader::settings(const toml::table& in, FlatConfig& config) const {
  for (const std::string_view section : kSections) {
    const toml::table* values = table(in, section);
    if (values == nullptr) continue;
    for (const auto& [key, node] : *values) {
      const std::string name = std::string(section) + "." + std::string(key.str());
      for (const Own& own : kOwn) {
        if (name == own.name) refuse(key.source(), name + " is not for plans; " + own.instead);
      }
      if (node.is_table()) refuse(key.source(), name + " must not be a table");
      const toml::node& value = node;  // a lambda may not capture a part of a binding
      at(value.source(), [&] { config[name] = setting_text(value, name); });
    }
  }
}

std::optional<toml::source_region> PlanReader::place_of(const toml::table& in,
                                                        const std::string& complaint) const {
  for (const std::string_view section : kSections) {
    const toml::node* values = in.get(section);
    if (values == nullptr || values->as_table() == nullptr) continue;
    for (const auto& [key, node] : *values->as_table()) {
      const std::string name(key.str());
      if (complaint.find("'" + name + "'") != std::string::npos ||
          complaint.find(" " + name + " ") != std::string::npos) {
        return key.source();
      }
    }
  }
  return std::nullopt;
}

}  // namespace thinwire::app
