#include "src/core/unit_check.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/core/site_math.h"
#include "thinwire/device.h"
#include "thinwire/hash.h"

namespace thinwire {
namespace {

std::vector<std::uint64_t> unit_hashes(Units& units) {
  const Layout& layout = units.layout();
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(layout.units()), 0);
  for (int unit = 0; unit < layout.units(); ++unit) {
    const Units::Weights weights = units.weights(unit);
    std::uint64_t& hash = hashes[static_cast<std::size_t>(unit)];
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      const Place& place = layout.place(i);
      if (place.unit == unit)
        hash = hash_fold(hash, hash64(ConstFloats(Near(weights.at(place), Device()))));
    }
  }
  return hashes;
}

}  // namespace

std::string differing_unit(Units& units, Collective& near) {
  if (near.size() == 1) return "";
  const std::vector<std::uint64_t> all = words_of_all(unit_hashes(units), near);
  const auto ranks = static_cast<std::size_t>(near.size());
  const std::size_t count = all.size() / ranks;
  for (std::size_t unit = 0; unit < count; ++unit) {
    std::vector<std::uint64_t> of_unit;
    for (std::size_t rank = 0; rank < ranks; ++rank) of_unit.push_back(all[rank * count + unit]);
    const auto votes = [&](std::uint64_t hash) {
      return std::count(of_unit.begin(), of_unit.end(), hash);
    };
    const std::uint64_t most = *std::max_element(
        of_unit.begin(), of_unit.end(), [&](auto a, auto b) { return votes(a) < votes(b); });
    if (votes(most) == static_cast<std::ptrdiff_t>(ranks)) continue;
    std::string text = "unit " + std::to_string(unit) + " differs between ranks of this site";
    if (2 * votes(most) <= static_cast<std::ptrdiff_t>(ranks)) return text;
    text += ": most hold another one than rank";
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (of_unit[rank] != most) text += " " + std::to_string(rank);
    }
    return text;
  }
  return "";
}

}  // namespace thinwire
