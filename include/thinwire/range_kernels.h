// What the core does to parts of a shard and to what travels between ranks, wherever the floats
// lie; results come to the host. Marked [replicated] as in kernels.h, whose rules these share.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// sums[i] = sum_squares of floats [offset, offset + size) of x, of each range          [replicated]
void sum_squares(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums);

// hashes[i] = hash64 (hash.h) of the floats of each range                              [replicated]
void hash(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes);

// To the nearest bf16, ties to even; what is not a number stays so.                    [replicated]
void round_to_bf16(Floats x);
// Two values ride in the place of one float, the first in its low half; nobody does arithmetic on
// it. packed holds (values.size() + 1) / 2.                                            [replicated]
void pack_bf16(ConstFloats values, Floats packed);
void unpack_bf16(ConstFloats packed, Floats values);

}  // namespace thinwire::kernels
