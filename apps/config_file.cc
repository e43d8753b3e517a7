#include <toml++/toml.h>

#include <sstream>

#include "apps/options.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

std::string text_of(const toml::node& node, const std::string& name) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* list = node.as_array()) {
    std::string joined;
    for (const toml::node& one : *list) {
      joined += (joined.empty() ? "" : ",") + text_of(one, name);
    }
    return joined;
  }
  if (node.is_floating_point()) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(17);
    text << node.as_floating_point()->get();
    return text.str();
  }
  throw UsageError("config: " + name +
                   " is a date; give a number, a text, true or false, or a list");
}

void flatten(const toml::table& table, const std::string& prefix, FlatConfig& into) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", into);
    } else {
      into[name] = text_of(node, name);
    }
  }
}

}  // namespace

FlatConfig read_config_file(const std::filesystem::path& path) {
  FlatConfig config;
  try {
    flatten(toml::parse_file(path.string()), "", config);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << path.string() << ", line " << error.source().begin.line << ", column "
          << error.source().begin.column << ": " << error.description();
    throw UsageError(where.str());
  }
  return config;
}

}  // namespace thinwire::app
