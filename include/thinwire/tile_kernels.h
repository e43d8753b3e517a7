// What transform-domain methods do to all tiles of a matrix or shard at once: on a device one block
// works on a tile and nothing in between goes through memory. Floats of one call lie on one device,
// or all on the host; lists of picks lie on the host.
//
// `values`, `x` and `z` begin `origin` floats after what Tile::offset counts from: 0 for the
// shard's floats, the piece's offset for a buffer that begins with a piece.
//
// Marked [replicated] as in kernels.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/kernels.h"
#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// In a per_tile state, for each tile a list of places (as floats) and, behind their k floats, the k
// values that were taken from these; a value of 0 ends it.
struct Lists {
  Floats floats;
  std::size_t first = 0;   // of the first tile's list
  std::size_t stride = 0;  // from one tile to the next
  std::size_t k = 0;
};

// Per tile how many; then the places, ascending within the tile, and the coefficients there.
struct Chosen {
  std::vector<std::uint16_t> counts;
  std::vector<std::uint16_t> positions;
  std::vector<float> values;
};

struct Extract {
  float decay = 1.0f;
  float scale = 1.0f;
  float subtract = 1.0f;  // share of a chosen coefficient that is taken from the residual
  int k = 1;              // at most lists.k
  Basis basis = Basis::dct;
};
// For each tile R of the residual: R = decay R + scale T(values); the k largest |R| (top_k) are
// appended to `chosen`; of each, subtract R is taken away, and goes into the tile's list.
void extract(Tiles tiles, ConstFloats values, std::size_t origin, const Extract& how,
             Floats residual, const Lists& taken, Chosen& chosen);

// What several sites said of the tiles, brought together: of tile t the entries begin[t] ..
// begin[t + 1], places ascending. Either weights (votes, Q12 as in inverse_votes) or values.
struct Said {
  std::span<const std::uint32_t> begin;  // tiles + 1, ascending; begin[0] need not be 0
  std::span<const std::uint16_t> positions;
  std::span<const std::int32_t> weights;
  std::span<const float> values;
};

// x = keep x - rate sign(z), or - rate z, where z is the inverse of what was said: its sign alone
// for votes, which have no size.                                                      [replicated]
struct Along {
  float keep = 1.0f;
  float rate = 0.0f;
  bool sign = true;
  Basis basis = Basis::dct;
};
void step_along(Tiles tiles, const Said& said, const Along& how, std::size_t origin, Floats x);

// z = the inverse of what was said; votes with amplitudes (inverse_votes_amplitude). Returns the
// sum of squares of all tiles: of each by inverse_votes_amplitude or row by row, then tile after
// tile, in double.                                                                    [replicated]
double inverse_said(Tiles tiles, const Said& said, Basis basis, std::size_t origin, Floats z);

// z = the inverse of residual + all lists, several times as fast and not replicated. Returns the
// sum of squares. A place outside the tile is no place.
double inverse_owed(Tiles tiles, ConstFloats residual, std::span<const Lists> lists, Basis basis,
                    std::size_t origin, Floats z);

// residual += the first counts[t] entries of each list. Places outside the tile are left out.
void give_back(Tiles tiles, const Lists& lists, std::span<const std::uint16_t> counts,
               Floats residual);
// The lists are empty from now on.
void clear(Tiles tiles, const Lists& lists);

}  // namespace thinwire::kernels
