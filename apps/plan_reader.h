// Values of a plan's file with the place of each in every complaint. Internal to read_plan.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/options.h"

namespace thinwire::app {

class PlanReader {
 public:
  PlanReader(std::filesystem::path path, toml::table root)
      : path_(std::move(path)), root_(std::move(root)) {}

  const toml::table& root() const { return root_; }

  [[noreturn]] void refuse(const toml::source_region& at, const std::string& why) const;
  // Calls it; what it has to complain about is said with the place.
  void at(const toml::source_region& place, const std::function<void()>& judge) const;

  // Refuses every key that is not among these.
  void check_keys(const toml::table& table, const std::vector<std::string>& known) const;
  const toml::table* table(const toml::table& in, std::string_view key) const;
  // Tables written [[key]]; none: empty.
  std::vector<const toml::table*> tables(const toml::table& in, std::string_view key) const;
  std::string text(const toml::table& in, std::string_view key, const std::string& fallback) const;
  bool flag(const toml::table& in, std::string_view key) const;
  std::optional<double> number(const toml::table& in, std::string_view key) const;
  // One value, or a list of at least one, as texts with their places; no key: empty.
  struct Item {
    std::string text;
    toml::source_region place;
  };
  std::vector<Item> list(const toml::table& in, std::string_view key) const;

  // [run], [model], [schedule] of `in`, laid over `config`.
  void settings(const toml::table& in, FlatConfig& config) const;
  // The place of the setting that a complaint names, among [run], [model], [schedule] of `in`.
  std::optional<toml::source_region> place_of(const toml::table& in,
                                              const std::string& complaint) const;

 private:
  std::filesystem::path path_;
  toml::table root_;
};

}  // namespace thinwire::app
