#include "thinwire/site_options.h"

#include <array>
#include <charconv>
#include <cmath>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::array kShardings{"none", "optimizer", "gradient", "full"};
constexpr std::array kTypes{"fp32", "bf16"};

template <std::size_t count>
int index_in(const std::array<const char*, count>& names, const char* what, std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    if (name == names[i]) return static_cast<int>(i);
    known += (known.empty() ? "" : ", ") + std::string(names[i]);
  }
  throw UsageError("unknown " + std::string(what) + " '" + std::string(name) +
                   "'; known: " + known);
}

}  // namespace

Sharding parse_sharding(std::string_view name) {
  return static_cast<Sharding>(index_in(kShardings, "sharding", name));
}
NearType parse_near_type(std::string_view name) {
  return static_cast<NearType>(index_in(kTypes, "type of the near link", name));
}
const char* to_string(Sharding sharding) { return kShardings.at(static_cast<int>(sharding)); }
const char* to_string(NearType type) { return kTypes.at(static_cast<int>(type)); }

Wrap parse_wrap(std::string_view text) {
  if (text == "unit") return {};
  if (text == "all") return {kWrapAll};
  constexpr std::string_view kSize = "size:";
  if (text.starts_with(kSize)) {
    const std::string_view digits = text.substr(kSize.size());
    std::size_t bytes = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
    if (error == std::errc() && end == digits.data() + digits.size() && bytes > 0) return {bytes};
  }
  throw UsageError("unknown wrapping '" + std::string(text) +
                   "'; known: unit, size:BYTES (as in size:1000000), all");
}

void SiteOptions::validate() const {
  if (accumulate < 1) throw UsageError("accumulate must be 1 or more micro-batches a step");
  if (!(std::isfinite(clip) && clip >= 0.0f)) {
    throw UsageError("clip must be a norm above 0, or 0 for none");
  }
}

std::string SiteOptions::agreement() const {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), clip).ptr;
  return "clip=" + std::string(digits.data(), end) + " accumulate=" + std::to_string(accumulate) +
         " gather=" + to_string(gather) + " reduce=" + to_string(reduce);
}

}  // namespace thinwire
