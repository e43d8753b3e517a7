// The chosen coefficients of an update as bytes: counts and positions range coded, then codes and
// scales as they are. For codec.cc, which checks beforehand that what it encodes fits the shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/codec/bytes.h"
#include "thinwire/error.h"
#include "thinwire/update.h"

namespace thinwire {

using TileSizes = std::span<const std::uint32_t>;  // coefficients of each tile

struct PicksForm {
  int value_bits = 32;
  bool scales = false;
};

void append_picks(Bytes& out, const Picks& picks, TileSizes tiles);
Result<Picks> take_picks(Reader& bytes, TileSizes tiles, const PicksForm& form);

}  // namespace thinwire
