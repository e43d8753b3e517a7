// 64-bit hashes for equality of replicas, layouts and frames: XXH3, equal on every machine. Not a
// MAC.
#pragma once

#include <cstdint>
#include <string_view>

#include "thinwire/types.h"

namespace thinwire {

std::uint64_t hash64(ByteView bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);
std::uint64_t hash64(ConstFloats floats, std::uint64_t seed = 0);

// Folds the next hash of an ordered list into the hash of those before it.
std::uint64_t hash_fold(std::uint64_t so_far, std::uint64_t next);

}  // namespace thinwire
