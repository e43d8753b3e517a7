// Named settings of a plug-in, as text from a command line or config file, read strictly: a value
// of the wrong kind, a value out of range and a name that nobody asked for are UsageErrors that say
// what would be right. A plug-in's factory reads what it knows; the catalog then calls finish().
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire {

class Settings {
 public:
  // `owner` names the plug-in in error messages ("mine").
  Settings(std::string owner, std::map<std::string, std::string> values = {});

  // The value of `key`, or `fallback`; must lie in [low, high]. A float is never NaN.
  double number(std::string_view key, double fallback, double low, double high);
  int integer(std::string_view key, int fallback, int low, int high);
  bool flag(std::string_view key, bool fallback);
  // One of `allowed`.
  std::string choice(std::string_view key, std::string_view fallback,
                     const std::vector<std::string>& allowed);

  std::string text(std::string_view key, std::string_view fallback);

  // Throws UsageError naming the first key that was given but never read, and the nearest known
  // one.
  void finish() const;
  // Every key that was read, with the value it got: the resolved settings, in order of name.
  const std::map<std::string, std::string>& resolved() const { return resolved_; }
  const std::string& owner() const { return owner_; }

 private:
  const std::string* given(std::string_view key) const;

  std::string owner_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> resolved_;
};

// The candidate with the fewest single-letter edits to `word`; empty when there are none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace thinwire
