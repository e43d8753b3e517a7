// Updates to bytes and back without losing a bit: decode(encode(u)) == u, and no other bytes decode
// to u. docs/wire_format.md is the law. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/error.h"
#include "thinwire/types.h"
#include "thinwire/update.h"

namespace thinwire {

inline constexpr std::uint32_t kTileCoefficientsMax = 65535;

// What sender and receiver know of a shard beforehand, and therefore never say.
struct Shape {
  std::size_t floats = 0;  // of the shard: the most values of a dense update
  std::span<const std::uint32_t> tile_coefficients;  // of each tile, at most kTileCoefficientsMax
};

// `update` must fit the shape: dense has at most `floats` values; counts is empty or has one
// entry a tile; positions strictly ascend within their tile; codes fit in value_bits; scales are
// finite and none, or one for each tile with counts > 0. What does not fit is a broken promise
// (TW_CHECK).
Bytes encode(const Update& update, const Shape& shape);

// Judges bytes from outside: bounds, counts, order, sizes, finite scales, and that they are exactly
// encode(update). Allocates in proportion to the shape, whatever the bytes claim. Whether dense
// values and 32-bit codes are finite is not judged here: see finite_floats.
Result<Update> decode(ByteView bytes, const Shape& shape);

// Are all dense values, scales and, with 32-bit values, all codes read as floats, finite? For
// receivers whose optimizer reads 32-bit codes as floats.
bool finite_floats(const Update& update);

}  // namespace thinwire
