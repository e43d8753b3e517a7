// The functions of coarse_kernels.h on the host, a tile after another.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/kernels/dispatch.h"
#include "src/kernels/extent.h"
#include "thinwire/coarse_kernels.h"
#include "thinwire/device.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

namespace thinwire::kernels {
namespace {

// visit(position of the first, valid values) for each row of the tile; `values` begin with it.
template <class Span, class Visit>
void for_each_row(const Tile& tile, Span values, const Visit& visit) {
  check_extent(tile, values.size());
  for (std::size_t row = 0; row < used_rows(tile); ++row) {
    const std::size_t cols = row < tile.rows ? tile.cols : tile.tail;
    visit(row * tile.width, values.subspan(tile.offset + row * tile.stride, cols));
  }
}

std::size_t values_of(const Tile& tile) { return tile.rows * tile.cols + tile.tail; }

bool is_finite(const Tile& tile, ConstFloats values) {
  bool finite = true;
  for_each_row(tile, values,
               [&](std::size_t, ConstFloats row) { finite = finite && all_finite(row); });
  return finite;
}

void say_values(const Tile& tile, Coarse coarse, float scale, Floats values, Words& words) {
  for_each_row(tile, values, [&](std::size_t first, Floats row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint32_t code = encode(coarse, row[i], scale);
      words.positions.push_back(static_cast<std::uint16_t>(first + i));
      words.codes.push_back(code);
      row[i] -= decode(coarse, code, scale);
    }
  });
}

// Where that position lies; ~0 in the padding.
std::size_t place_of(const Tile& tile, std::size_t position) {
  const std::size_t row = position / tile.width;
  const std::size_t col = position % tile.width;
  const std::size_t cols = row < tile.rows ? tile.cols : row == tile.rows ? tile.tail : 0;
  return col < cols ? tile.offset + row * tile.stride + col : ~std::size_t{0};
}

void check_words(Tiles tiles, const WordsView& words) {
  TW_CHECK(words.counts.size() == tiles.size());
  TW_CHECK(words.positions.size() == words.codes.size());
  std::size_t picks = 0;
  std::size_t spoken = 0;
  for (const std::uint16_t count : words.counts) {
    picks += count;
    spoken += count > 0 ? 1 : 0;
  }
  TW_CHECK(picks == words.positions.size());
  TW_CHECK(words.scales.empty() || words.scales.size() == spoken);
}

// Without scales each is 1.
void add(Tiles tiles, Coarse coarse, const WordsView& words, Floats into) {
  if (words.positions.empty()) return;
  check_words(tiles, words);
  if (const DeviceKernels* twins = twins_for(into)) {
    return twins->add_coarse(tiles, coarse, words, into);
  }
  std::size_t pick = 0;
  std::size_t spoken = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (words.counts[i] == 0) continue;
    const float scale = words.scales.empty() ? 1.0f : words.scales[spoken];
    ++spoken;
    for (const std::size_t end = pick + words.counts[i]; pick < end; ++pick) {
      const std::size_t at = place_of(tiles[i], words.positions[pick]);
      if (at < into.size()) into[at] += decode(coarse, words.codes[pick], scale);
    }
  }
}

}  // namespace

void say_coarse(Tiles tiles, Coarse coarse, Floats values, Words& words) {
  if (const DeviceKernels* twins = twins_for(values)) {
    return twins->say_coarse(tiles, coarse, values, words);
  }
  std::vector<float> of_tile;
  for (const Tile& tile : tiles) {
    const bool finite = is_finite(tile, values);
    words.counts.push_back(finite ? static_cast<std::uint16_t>(values_of(tile)) : 0);
    of_tile.clear();
    for_each_row(tile, values, [&](std::size_t, Floats row) {
      if (finite) {
        of_tile.insert(of_tile.end(), row.begin(), row.end());
      } else {
        zero(row);
      }
    });
    if (of_tile.empty()) continue;
    const float scale = scale_of(coarse, of_tile);
    if (coarse != Coarse::plain) words.scales.push_back(scale);
    say_values(tile, coarse, scale, values, words);
  }
}

void add_coarse(Tiles tiles, Coarse coarse, const WordsView& words, Floats into) {
  if (coarse == Coarse::plain || !words.scales.empty()) add(tiles, coarse, words, into);
}

void say_signs(Tiles tiles, ConstFloats values, Words& words) {
  if (const DeviceKernels* twins = twins_for(values)) {
    return twins->say_signs(tiles, values, words);
  }
  for (const Tile& tile : tiles) {
    const std::size_t before = words.positions.size();
    for_each_row(tile, values, [&](std::size_t first, ConstFloats row) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] == 0.0f) continue;
        words.positions.push_back(static_cast<std::uint16_t>(first + i));
        words.codes.push_back(encode(Coarse::sign, row[i], 1.0f));
      }
    });
    words.counts.push_back(static_cast<std::uint16_t>(words.positions.size() - before));
  }
}

void add_signs(Tiles tiles, const WordsView& words, Floats into) {
  WordsView unscaled = words;
  unscaled.scales = {};
  add(tiles, Coarse::sign, unscaled, into);
}

}  // namespace thinwire::kernels
