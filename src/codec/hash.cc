#include "thinwire/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace thinwire {

std::uint64_t hash64(ByteView bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::uint64_t hash64(ConstFloats floats, std::uint64_t seed) {
  return XXH3_64bits_withSeed(floats.data(), floats.size_bytes(), seed);
}

// Sixteen little-endian bytes, so_far then next, through XXH3 with seed 0: order matters, a run of
// zero hashes does not vanish, and any other program can repeat it.
std::uint64_t hash_fold(std::uint64_t so_far, std::uint64_t next) {
  std::uint8_t pair[16];
  for (int i = 0; i < 8; ++i) {
    pair[i] = static_cast<std::uint8_t>(so_far >> (8 * i));
    pair[8 + i] = static_cast<std::uint8_t>(next >> (8 * i));
  }
  return XXH3_64bits(pair, sizeof(pair));
}

}  // namespace thinwire
