// Floats to bytes, through zstd where that is smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "src/codec/bytes.h"
#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire {

// zstd's output may differ between its versions, so dense values are read only where the same
// version runs: every dense section says which it was made with.
std::uint32_t dense_version();

// Appends the section. True if the values are compressed.
bool append_dense(Bytes& out, ConstFloats values);

// Takes a section of `floats` values from the front of `bytes`, and refuses one that append_dense
// would not have written. Allocates in proportion to `floats`, never to what the bytes claim.
Result<std::vector<float>> take_dense(Reader& bytes, std::size_t floats, bool compressed);

}  // namespace thinwire
