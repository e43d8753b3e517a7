// A visible table from a name to a factory: no static registration. main() makes one, adds rows to
// it if it likes, and passes it on. A value; not shared between threads while rows are added.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/settings.h"

namespace thinwire {

template <class Product>
class Catalog {
 public:
  using Factory = std::function<std::unique_ptr<Product>(Settings&)>;
  struct Row {
    std::string about;  // one line for `thinwire optimizers`
    Factory make;
  };

  explicit Catalog(std::string what) : what_(std::move(what)) {}  // "optimizer", for messages

  // Throws UsageError for a name that is taken.
  void add(std::string name, std::string about, Factory make) {
    if (rows_.contains(name)) throw UsageError(what_ + " '" + name + "' is already in the catalog");
    rows_.emplace(std::move(name), Row{std::move(about), std::move(make)});
  }

  // Throws UsageError listing the known names, or for settings that the factory refuses or ignores.
  std::unique_ptr<Product> make(std::string_view name, Settings& settings) const {
    std::unique_ptr<Product> product = row(name).make(settings);
    settings.finish();
    return product;
  }

  const Row& row(std::string_view name) const {
    auto found = rows_.find(std::string(name));
    if (found != rows_.end()) return found->second;
    std::string known;
    for (const std::string& one : names()) known += (known.empty() ? "" : ", ") + one;
    throw UsageError("unknown " + what_ + " '" + std::string(name) + "'; known: " + known);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, row] : rows_) all.push_back(name);
    return all;
  }

 private:
  std::string what_;
  std::map<std::string, Row> rows_;
};

}  // namespace thinwire
