#include <fmt/format.h>
#include <toml++/toml.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "apps/options.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

// All of `text` as a value; nothing when a letter is left over.
template <class Value>
std::optional<Value> parse(const std::string& text) {
  Value value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Value>
std::string shortest(Value value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string text_of(const toml::node& node, const std::string& name) {
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
    joined += (i == 0 ? "" : ",") + text_of((*list)[i], name);
  }
  return joined;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04X}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// Without quotes only what text_of gives back letter by letter: a file may be called 1e5 or 007.
bool reads_back_bare(const std::string& value) {
  if (value == "true" || value == "false") return true;
  if (const auto number = parse<std::int64_t>(value)) return shortest(*number) == value;
  const auto number = parse<double>(value);
  return number && std::isfinite(*number) && shortest(*number) == value &&
         value.find_first_of(".e") != std::string::npos;
}

bool is_bare_key(const std::string& key) {
  return !key.empty() && key.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_-") == std::string::npos;
}

std::string content_of(const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("--config " + path.string() + " " + why +
                     "; give the path of a TOML file, as config.toml of an earlier run");
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
      into[name] = text_of(node, name);
    }
  }
}

}  // namespace

FlatConfig read_config_file(const std::filesystem::path& path) {
  const std::string text = content_of(path);
  FlatConfig config;
  try {
    flatten(toml::parse(text, path.string()), "", config);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << path.string() << ", line " << error.source().begin.line << ", column "
          << error.source().begin.column << ": " << error.description();
    throw UsageError(where.str());
  }
  return config;
}

std::string toml_table(const std::vector<std::string>& name,
                       const std::map<std::string, std::string>& values) {
  const auto key_text = [](const std::string& key) { return is_bare_key(key) ? key : quoted(key); };
  std::string toml = "[";
  for (std::size_t i = 0; i < name.size(); ++i) toml += (i == 0 ? "" : ".") + key_text(name[i]);
  toml += "]\n";
  for (const auto& [key, value] : values) {
    toml += key_text(key) + " = " + (reads_back_bare(value) ? value : quoted(value)) + "\n";
  }
  return toml + "\n";
}

}  // namespace thinwire::app
