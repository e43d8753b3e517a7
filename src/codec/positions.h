// Which c of n coefficients were chosen, in log2 C(n, c) bits: by recursive binary splitting.
#pragma once

#include <cstdint>
#include <span>

#include "src/codec/range_coder.h"
#include "src/codec/splits.h"

namespace thinwire {

// `positions` strictly ascending, all below `node.n`.
void encode_positions(RangeEncoder& coder, Splits& splits, Splits::Node& node,
                      std::span<const std::uint16_t> positions);

// Fills `positions` (at most node.n of them) with ascending values below node.n, whatever the bytes
// are; ask coder.exact() at the end whether they mean anything.
void decode_positions(RangeDecoder& coder, Splits& splits, Splits::Node& node,
                      std::span<std::uint16_t> positions);

}  // namespace thinwire
