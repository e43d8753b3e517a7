// A shard's replicated floats by tile row, the unit in which replicas are compared and mended.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/shard.h"

namespace thinwire {

// Parameters of the row, then its part of each replicated state (all of a `whole` one). Nothing
// where another rank owns the row.
std::vector<Floats> row_parts(Shard& shard, std::size_t row);

Bytes pack_rows(const Shard& shard, std::span<const std::size_t> rows);
// Writes the rows and says which parameter is the first that changes, "block.0.up [17]"; empty: a
// state alone, or nothing. Refuses, with nothing written, what is not rows of this shard.
Result<std::string> unpack_rows(ByteView bytes, Shard& shard);

}  // namespace thinwire
