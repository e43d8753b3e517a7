// TOML as the program reads it: settings as text, errors with line and column. Internal to the
// readers of config files and plans; toml++ stays behind apps.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <string>

#include "apps/options.h"

namespace thinwire::app {

// The file as text. Throws UsageError: "`flag` PATH cannot be read: ...; `advice`".
std::string read_toml_file(const std::filesystem::path& path, const std::string& flag,
                           const std::string& advice);

// Throws UsageError with path, line and column.
toml::table parse_toml(const std::string& text, const std::filesystem::path& path);

// A number, text, flag or list of them as one text; `name` is for the message.
std::string setting_text(const toml::node& node, const std::string& name);

// Tables below tables as flat names, each with `prefix` before it.
void flatten(const toml::table& table, const std::string& prefix, FlatConfig& into);

// "plan.toml, line 3, column 5"
std::string place_text(const std::filesystem::path& path, const toml::source_region& source);

}  // namespace thinwire::app
