#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>

#include "apps/options.h"
#include "apps/toml_text.h"

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

}  // namespace

FlatConfig read_config_file(const std::filesystem::path& path) {
  FlatConfig config;
  const std::string text = read_toml_file(
      path, "--config", "give the path of a TOML file, as config.toml of an earlier run");
  flatten(parse_toml(text, path), "", config);
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
