#include "thinwire/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "thinwire/error.h"

namespace thinwire {
namespace {

// All of `text` as a value, without locale, blanks or a plus sign; nothing when a letter is left
// over.
template <class Value>
std::optional<Value> parse(const std::string& text) {
  Value value{};
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// The shortest text that parses back to the same value.
template <class Value>
std::string shortest(Value value) {
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  TW_CHECK(error == std::errc());
  return std::string(buffer, end);
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

// Insertions, deletions, replacements and swaps of neighbours ("optimal string alignment").
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// Near enough to be a slip of the finger rather than another word.
bool is_slip(std::string_view word, std::string_view meant) {
  std::size_t distance = edits(word, meant);
  return distance <= 1 + word.size() / 4 && distance < std::min(word.size(), meant.size());
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  auto fewer = [&](const std::string& a, const std::string& b) {
    return edits(word, a) < edits(word, b);
  };
  auto best = std::min_element(candidates.begin(), candidates.end(), fewer);
  return best == candidates.end() ? std::string() : *best;
}

Settings::Settings(std::string owner, std::map<std::string, std::string> values)
    : owner_(std::move(owner)), values_(std::move(values)) {}

const std::string* Settings::given(std::string_view key) const {
  auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

double Settings::number(std::string_view key, double fallback, double low, double high) {
  double value = fallback;
  if (const std::string* text = given(key)) {
    std::optional<double> parsed = parse<double>(*text);
    if (!parsed || !std::isfinite(*parsed) || *parsed < low || *parsed > high) {
      throw UsageError(owner_ + ": " + std::string(key) + " must be a number from " +
                       shortest(low) + " to " + shortest(high) + ", got '" + *text + "'");
    }
    value = *parsed;
  }
  resolved_[std::string(key)] = shortest(value);
  return value;
}

int Settings::integer(std::string_view key, int fallback, int low, int high) {
  int value = fallback;
  if (const std::string* text = given(key)) {
    std::optional<int> parsed = parse<int>(*text);
    if (!parsed || *parsed < low || *parsed > high) {
      throw UsageError(owner_ + ": " + std::string(key) + " must be an integer from " +
                       shortest(low) + " to " + shortest(high) + ", got '" + *text + "'");
    }
    value = *parsed;
  }
  resolved_[std::string(key)] = shortest(value);
  return value;
}

bool Settings::flag(std::string_view key, bool fallback) {
  if (const std::string* text = given(key); text != nullptr && (*text == "1" || *text == "0")) {
    resolved_[std::string(key)] = *text == "1" ? "true" : "false";
    return *text == "1";
  }
  return choice(key, fallback ? "true" : "false", {"true", "false"}) == "true";
}

std::string Settings::choice(std::string_view key, std::string_view fallback,
                             const std::vector<std::string>& allowed) {
  std::string value(fallback);
  if (const std::string* text = given(key)) {
    if (std::find(allowed.begin(), allowed.end(), *text) == allowed.end()) {
      throw UsageError(owner_ + ": " + std::string(key) + " must be one of " + comma_list(allowed) +
                       ", got '" + *text + "'");
    }
    value = *text;
  }
  resolved_[std::string(key)] = value;
  return value;
}

std::string Settings::text(std::string_view key, std::string_view fallback) {
  const std::string* text = given(key);
  return resolved_[std::string(key)] = text != nullptr ? *text : std::string(fallback);
}

void Settings::finish() const {
  for (const auto& [key, value] : values_) {
    if (resolved_.contains(key)) continue;
    std::vector<std::string> known;
    for (const auto& [name, text] : resolved_) known.push_back(name);
    std::string message = owner_ + " has no setting '" + key + "'; ";
    std::string meant = nearest(key, known);
    if (known.empty()) throw UsageError(message + "it has none");
    if (is_slip(key, meant)) throw UsageError(message + "did you mean '" + meant + "'?");
    throw UsageError(message + "known: " + comma_list(known));
  }
}

}  // namespace thinwire
