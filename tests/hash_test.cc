#include "thinwire/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace thinwire {
namespace {

// From the published test of XXH3: the hash of nothing with seed 0.
TEST(Hash, OfNothingIsThePublishedValue) {
  EXPECT_EQ(hash64(std::string_view()), 0x2d06800538d394c2u);
}

TEST(Hash, DependsOnTheSeed) { EXPECT_NE(hash64("tile", 1), hash64("tile", 2)); }

TEST(Hash, OfTextBytesAndFloatsIsThatOfTheirMemory) {
  const std::vector<float> floats = {1.0f, -0.0f, 3.5f};
  const auto bytes = std::as_bytes(std::span(floats));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(hash64(ConstFloats(floats), 9), hash64(bytes, 9));
  EXPECT_EQ(hash64(text, 9), hash64(bytes, 9));
}

TEST(Hash, TellsMinusZeroFromZero) {
  const std::vector<float> zero = {0.0f};
  const std::vector<float> minus = {-0.0f};
  EXPECT_NE(hash64(ConstFloats(zero)), hash64(ConstFloats(minus)));
}

TEST(HashFold, DependsOnTheOrder) {
  EXPECT_NE(hash_fold(hash_fold(0, 1), 2), hash_fold(hash_fold(0, 2), 1));
}

TEST(HashFold, DoesNotForgetZeros) {
  std::set<std::uint64_t> seen;
  std::uint64_t hash = 0;
  for (int i = 0; i < 1000; ++i) seen.insert(hash = hash_fold(hash, 0));
  EXPECT_EQ(seen.size(), 1000u);
}

// Replicas of different builds compare hashes: this value may never change.
TEST(HashFold, IsTheHashOfBothAsLittleEndianBytes) {
  const std::string_view pair("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", 16);
  EXPECT_EQ(hash_fold(1, 2), hash64(pair));
}

}  // namespace
}  // namespace thinwire
