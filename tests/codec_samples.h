// Updates and shapes for the tests of the codec: chosen by seed, equal on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "src/codec/codec.h"

namespace thinwire::test {

using Rng = std::mt19937_64;

inline std::uint32_t below(Rng& rng, std::uint32_t bound) {
  return static_cast<std::uint32_t>(rng() % bound);
}

// `count` of 0 .. n - 1, uniformly, ascending.
inline std::vector<std::uint16_t> random_choice(Rng& rng, std::uint32_t n, std::uint32_t count) {
  std::vector<std::uint16_t> chosen;
  for (std::uint32_t i = 0; i < n && chosen.size() < count; ++i)
    if (below(rng, n - i) < count - chosen.size()) chosen.push_back(static_cast<std::uint16_t>(i));
  return chosen;
}

inline float random_float(Rng& rng) {
  return (static_cast<float>(below(rng, 1u << 24)) - 8388608.0f) * 0x1p-20f;
}

struct PicksPlan {
  int value_bits = 1;
  bool scales = false;
};

// counts[t] coefficients in tile t, codes at random.
inline Picks random_picks(Rng& rng, const std::vector<std::uint32_t>& tiles,
                          const std::vector<std::uint16_t>& counts, PicksPlan plan) {
  Picks picks;
  picks.value_bits = plan.value_bits;
  picks.counts = counts;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const auto chosen = random_choice(rng, tiles[t], counts[t]);
    picks.positions.insert(picks.positions.end(), chosen.begin(), chosen.end());
    if (plan.scales && counts[t] > 0) picks.scales.push_back(random_float(rng));
  }
  for (std::size_t i = 0; i < picks.positions.size(); ++i)
    picks.codes.push_back(static_cast<std::uint32_t>(rng() >> (64 - plan.value_bits)));
  return picks;
}

// Equal tiles, k chosen in each.
inline Update uniform_update(Rng& rng, const std::vector<std::uint32_t>& tiles, std::uint16_t k,
                             int value_bits) {
  const std::vector<std::uint16_t> counts(tiles.size(), k);
  return {.dense = {}, .picks = random_picks(rng, tiles, counts, {.value_bits = value_bits})};
}

struct Sample {
  std::vector<std::uint32_t> tiles;
  std::size_t floats = 0;
  Update update;

  Shape shape() const { return {floats, tiles}; }
};

// Anything an optimizer may say: odd and empty tiles, silence, full tiles, any width, dense beside
// it.
inline Sample random_sample(Rng& rng) {
  constexpr std::uint32_t kSizes[] = {0, 1, 2, 3, 7, 64, 91, 1536, 4096};
  Sample sample;
  sample.tiles.resize(below(rng, 12));
  for (auto& tile : sample.tiles) tile = kSizes[below(rng, std::size(kSizes))];
  sample.floats = below(rng, 300);
  const std::uint32_t form = below(rng, 8);
  const std::size_t values =
      below(rng, 3) == 0 ? below(rng, 300) % (sample.floats + 1) : sample.floats;
  if (form & 1)
    for (std::size_t i = 0; i < values; ++i)
      sample.update.dense.push_back(form & 2 ? random_float(rng) : 0.25f);
  std::vector<std::uint16_t> counts;
  const std::uint32_t usual = 1 + below(rng, 40);
  for (std::uint32_t tile : sample.tiles) {
    const std::uint32_t kind = below(rng, 6);
    std::uint32_t count = std::min(usual, tile);
    if (kind == 0) count = 0;
    if (kind == 1) count = tile;
    if (kind == 2) count = below(rng, tile + 1);
    counts.push_back(static_cast<std::uint16_t>(count));
  }
  const int value_bits = 1 << below(rng, 6);
  sample.update.picks.value_bits = value_bits;
  if (form != 1)
    sample.update.picks =
        random_picks(rng, sample.tiles, counts, {.value_bits = value_bits, .scales = form > 4});
  return sample;
}

}  // namespace thinwire::test
