// What methods do that say every value of a tile as it is, untransformed, in a few bits: all tiles
// of a shard at once. Floats of one call lie on one device, or all on the host; words lie on the
// host. What a code means is in coarse.h.
//
// A value's position is the one it would have among the tile's coefficients: row * width + column.
// Those of the padding of an edge tile are no values.
//
// Marked [replicated] as in kernels.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/coarse.h"
#include "thinwire/tile.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// Per tile how many; then the positions, ascending within the tile, and the code of each. Scales,
// where there are any, one for each tile with counts > 0. The fields of Picks (update.h).
struct Words {
  std::vector<std::uint16_t> counts = {};
  std::vector<std::uint16_t> positions = {};
  std::vector<std::uint32_t> codes = {};
  std::vector<float> scales = {};
};

// The same as somebody else said it. No tile, or one count for each of them.
struct WordsView {
  std::span<const std::uint16_t> counts;
  std::span<const std::uint16_t> positions;
  std::span<const std::uint32_t> codes;
  std::span<const float> scales;
};

// Says all values of each tile with a scale of the tile's own (none for Coarse::plain), appended to
// `words`; what is owed stays: value -= decode(code). Of a tile with a value that is not finite
// nothing is said, and nothing can be owed: its values become 0.                       [replicated]
void say_coarse(Tiles tiles, Coarse coarse, Floats values, Words& words);

// into += decode(code, scale of its tile), for every position that is a value: words may come from
// outside. Without their scales codes mean nothing.                                    [replicated]
void add_coarse(Tiles tiles, Coarse coarse, const WordsView& words, Floats into);

// Says the sign bits of all values that are not 0, without scales, appended to `words`.
void say_signs(Tiles tiles, ConstFloats values, Words& words);

// The same words, each of which counts 1 or -1: add_coarse of Coarse::sign with scales of 1.
//                                                                                      [replicated]
void add_signs(Tiles tiles, const WordsView& words, Floats into);

}  // namespace thinwire::kernels
