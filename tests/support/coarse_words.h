// What is said of whole tiles in a few bits, value by value as coarse.h has it, and values that are
// hard to say.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "optimizers/tile_values.h"
#include "tests/support/device_tiles.h"
#include "thinwire/coarse_kernels.h"

namespace thinwire::testing_support {

inline kernels::WordsView view_of(const kernels::Words& words) {
  return {words.counts, words.positions, words.codes, words.scales};
}

// What was said before, which must stay.
inline kernels::Words something() { return {{2}, {5, 9}, {1, 0}, {0.5f}}; }

inline kernels::Words say_singly(const World& world, Coarse coarse, std::vector<float>& values) {
  kernels::Words words = something();
  for (const Tile& tile : world.tiles()) {
    std::vector<float> of_tile;
    for_each_value(tile, [&](std::uint16_t, std::size_t at) { of_tile.push_back(values[at]); });
    const bool finite = std::ranges::all_of(of_tile, [](float v) { return std::isfinite(v); });
    const float scale = scale_of(coarse, of_tile);
    words.counts.push_back(finite ? static_cast<std::uint16_t>(of_tile.size()) : 0);
    if (finite && coarse != Coarse::plain) words.scales.push_back(scale);
    for_each_value(tile, [&](std::uint16_t position, std::size_t at) {
      if (!finite) {
        values[at] = 0.0f;
        return;
      }
      words.positions.push_back(position);
      words.codes.push_back(encode(coarse, values[at], scale));
      values[at] -= decode(coarse, words.codes.back(), scale);
    });
  }
  return words;
}

inline kernels::Words say_signs_singly(const World& world, const std::vector<float>& values) {
  kernels::Words words = something();
  for (const Tile& tile : world.tiles()) {
    std::uint16_t count = 0;
    for_each_value(tile, [&](std::uint16_t position, std::size_t at) {
      if (values[at] == 0.0f) return;
      words.positions.push_back(position);
      words.codes.push_back(std::signbit(values[at]) ? 1 : 0);
      ++count;
    });
    words.counts.push_back(count);
  }
  return words;
}

// scale(number of the tile among those that speak)
template <class Scale>
inline void add_singly(const World& world, Coarse coarse, const kernels::Words& words,
                       std::vector<float>& into, const Scale& scale) {
  std::size_t pick = 0;
  std::size_t spoken = 0;
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    for (const std::size_t end = pick + words.counts[i]; pick < end; ++pick) {
      const std::size_t at = value_at(world.tiles()[i], words.positions[pick]);
      if (at < into.size()) into[at] += decode(coarse, words.codes[pick], scale(spoken));
    }
    spoken += words.counts[i] > 0 ? 1 : 0;
  }
}

// Floats behind the last tile belong to nobody.
inline std::vector<float> ordinary(const World& world) {
  return normal_floats(world.size() + 7, 3);
}

inline std::vector<float> with_zeros(const World& world) {
  std::vector<float> values = ordinary(world);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 3 == 0 || i < world.size() / 4) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
  }
  return values;
}

inline std::vector<float> zeros(const World& world) {
  return std::vector<float>(world.size() + 7, -0.0f);
}

inline std::vector<float> of_all_sizes(const World& world) {
  std::vector<float> values = ordinary(world);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i * 7 % 31) - 20);
    if (i % 97 == 0) values[i] = i % 2 == 0 ? 1e-45f : -3e-39f;
  }
  return values;
}

// Two tiles where a sum of floats would overflow.
inline std::vector<float> huge(const World& world) {
  std::vector<float> values = ordinary(world);
  const Tiles tiles = world.tiles();
  for (const std::size_t i : {std::size_t{0}, tiles.size() - 1}) {
    float sign = 1.0f;
    for_each_value(tiles[i], [&](std::uint16_t, std::size_t at) {
      values[at] = (sign = -sign) * std::numeric_limits<float>::max();
    });
  }
  return values;
}

// In every second tile one, in its last value, its first, or between.
inline std::vector<float> not_finite(const World& world) {
  constexpr float kBad[] = {INFINITY, -INFINITY, NAN};
  std::vector<float> values = ordinary(world);
  for (std::size_t i = 0; i < world.tiles().size(); i += 2) {
    std::vector<std::size_t> places;
    for_each_value(world.tiles()[i], [&](std::uint16_t, std::size_t at) { places.push_back(at); });
    const std::size_t place = i / 2 % 3 == 0   ? places.size() - 1
                              : i / 2 % 3 == 1 ? 0
                                               : places.size() / 2;
    values[places[place]] = kBad[i / 2 % 3];
  }
  return values;
}

}  // namespace thinwire::testing_support
