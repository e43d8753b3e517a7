#include "apps/toml_text.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

template <class Value>
std::string shortest(Value value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::string setting_text(const toml::node& node, const std::string& name) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return shortest(number->get());
  if (const auto* number = node.as_floating_point()) return shortest(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  const auto* list = node.as_array();
  if (list == nullptr) {
    throw UsageError("config: " + name +
                     " must be a number, a text, true or false, or a list of them");
  }
  std::string joined;
  for (std::size_t i = 0; i < list->size(); ++i) {
    joined += (i == 0 ? "" : ",") + setting_text((*list)[i], name);
  }
  return joined;
}

std::string read_toml_file(const std::filesystem::path& path, const std::string& flag,
                           const std::string& advice) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(flag + " " + path.string() + " " + why + "; " + advice);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("is a directory");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (file && file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad()) refuse(std::string("cannot be read: ") + std::strerror(errno));
  return content.str();
}

void flatten(const toml::table& table, const std::string& prefix, FlatConfig& into) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, name + ".", into);
    } else {
      into[name] = setting_text(node, name);
    }
  }
}

std::string place_text(const std::filesystem::path& path, const toml::source_region& source) {
  std::ostringstream where;
  where << path.string() << ", line " << source.begin.line << ", column " << source.begin.column;
  return where.str();
}

toml::table parse_toml(const std::string& text, const std::filesystem::path& path) {
  try {
    return toml::parse(text, path.string());
  } catch (const toml::parse_error& error) {
    throw UsageError(place_text(path, error.source()) + ": " + std::string(error.description()));
  }
}

}  // namespace thinwire::app
