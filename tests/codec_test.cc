#include "src/codec/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/codec/frame.h"
#include "src/codec/positions.h"
#include "src/codec/splits.h"
#include "tests/codec_samples.h"

namespace thinwire {
namespace {

using test::Rng;
using test::Sample;

double log2_choose(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0);
}

// Either refused, or the only bytes of what they decode to.
void expect_judged(ByteView bytes, const Shape& shape) {
  const auto update = decode(bytes, shape);
  if (!update) {
    EXPECT_FALSE(update.why().empty());
    return;
  }
  const Bytes again = encode(*update, shape);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

TEST(Codec, GivesBackEveryBitOfRandomUpdates) {
  Rng rng(1);
  for (int i = 0; i < 3000; ++i) {
    const Sample sample = test::random_sample(rng);
    const auto back = decode(encode(sample.update, sample.shape()), sample.shape());
    ASSERT_TRUE(back) << back.why();
    ASSERT_EQ(*back, sample.update);
  }
}

TEST(Codec, GivesBackEverySubsetOfSmallTiles) {
  for (std::uint32_t n = 1; n <= 9; ++n) {
    const std::vector<std::uint32_t> tiles(1u << n, n);
    Update update;
    for (std::uint32_t subset = 0; subset < tiles.size(); ++subset) {
      for (std::uint16_t i = 0; i < n; ++i)
        if (subset >> i & 1) update.picks.positions.push_back(i);
      update.picks.counts.push_back(static_cast<std::uint16_t>(std::popcount(subset)));
    }
    update.picks.codes.resize(update.picks.positions.size());
    const auto back = decode(encode(update, {0, tiles}), {0, tiles});
    ASSERT_TRUE(back) << back.why();
    EXPECT_EQ(*back, update);
  }
}

TEST(Codec, GivesBackTheLargestTile) {
  Rng rng(2);
  const std::vector<std::uint32_t> tiles(4, kTileCoefficientsMax);
  for (std::uint16_t k : {1, 300, 32767, 32768, 65534, 65535}) {
    const Update update = test::uniform_update(rng, tiles, k, 1);
    const auto back = decode(encode(update, {0, tiles}), {0, tiles});
    ASSERT_TRUE(back) << back.why();
    EXPECT_EQ(*back, update);
  }
}

TEST(Codec, KeepsTheSignsOfZeroAndTheBitsOfNonFiniteDenseValues) {
  Update update;
  update.dense = {-0.0f, 0.0f, std::numeric_limits<float>::infinity(), std::nanf("7")};
  const auto back = decode(encode(update, {4, {}}), {4, {}});
  ASSERT_TRUE(back) << back.why();
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(float_code(back->dense[i]), float_code(update.dense[i]));
  EXPECT_FALSE(finite_floats(*back));
}

TEST(Codec, LeavesTheMeaningOfCodesToTheReader) {
  Update update;
  update.picks = {
      .value_bits = 32, .counts = {1}, .positions = {3}, .codes = {0x7f800000u}, .scales = {}};
  EXPECT_FALSE(finite_floats(update));
  update.picks.codes = {0x3f800000u};
  EXPECT_TRUE(finite_floats(update));
}

TEST(Codec, SaysNothingInOneByte) {
  const std::vector<std::uint32_t> tiles(1000, 4096);
  EXPECT_EQ(encode({}, {4096000, tiles}).size(), 1u);
  EXPECT_EQ(encode({}, {0, {}}).size(), 1u);
}

TEST(Codec, TellsNoCountsFromCountsOfZero) {
  const std::vector<std::uint32_t> tiles(5, 64);
  Update silent;
  Update counted;
  counted.picks.counts.assign(5, 0);
  const Bytes bytes = encode(counted, {0, tiles});
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_EQ(*decode(bytes, {0, tiles}), counted);
  EXPECT_EQ(*decode(encode(silent, {0, tiles}), {0, tiles}), silent);
}

// The figure of the README: 1,048,576 parameters, 8 of 4096 coefficients a tile, one-bit votes.
TEST(Codec, NeedsAtMost11Point6BitsACoefficientWithTheHeader) {
  Rng rng(3);
  const std::vector<std::uint32_t> tiles(256, 4096);
  double bits = 0;
  constexpr int kUpdates = 20;
  for (int i = 0; i < kUpdates; ++i) {
    const Update update = test::uniform_update(rng, tiles, 8, 1);
    const double each = 8.0 * seal({}, encode(update, {1 << 20, tiles})).size() / (256 * 8);
    EXPECT_LE(each, 11.6);
    bits += each / kUpdates;
  }
  std::printf("k = 8 of 4096, 1 bit: %.3f bits a coefficient (bound %.3f)\n", bits,
              log2_choose(4096, 8) / 8 + 1);
  RecordProperty("bits_per_coefficient", std::to_string(bits));
}

TEST(Codec, CodesPositionsWithinOnePercentOfTheirEntropy) {
  Rng rng(4);
  constexpr int kTiles = 300;
  for (std::uint32_t n : {64u, 91u, 1536u, 4096u}) {
    for (std::uint32_t k : {1u, 4u, 16u, 45u, 64u, 2048u}) {
      if (k >= n) continue;
      Bytes bytes;
      RangeEncoder coder(bytes);
      Splits splits;
      for (int i = 0; i < kTiles; ++i)
        encode_positions(coder, splits, splits.node(n), test::random_choice(rng, n, k));
      const double spent =
          8.0 * bytes.size();  // the last four bytes are the update's, not the tiles'
      const double ratio = spent / (kTiles * log2_choose(n, k));
      EXPECT_LT(ratio, 1.01) << k << " of " << n;
      EXPECT_GT(ratio, 0.98) << k << " of " << n;
      std::printf("%4u of %4u: %.4f of log2 C(n, k)\n", k, n, ratio);
    }
  }
}

TEST(Codec, SpendsAHundredthOfABitOnAnEmptyTile) {
  const std::vector<std::uint32_t> tiles(100000, 4096);
  Update update;
  update.picks.counts.assign(tiles.size(), 0);
  update.picks.counts[50000] = 1;
  update.picks.positions = {17};
  update.picks.codes = {0};
  EXPECT_LT(8.0 * encode(update, {0, tiles}).size() / tiles.size(), 0.01);
}

TEST(Codec, CompressesDenseValuesOnlyWhereThatIsShorter) {
  Rng rng(5);
  Update update;
  update.dense.assign(10000, 0.0f);
  EXPECT_LT(encode(update, {10000, {}}).size(), 200u);
  for (float& value : update.dense) value = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
  EXPECT_EQ(encode(update, {10000, {}}).size(), 1u + 4 + 40000);
  for (float& value : update.dense) value = test::random_float(rng);
  EXPECT_LT(encode(update, {10000, {}}).size(), 36000u);
}

TEST(Codec, RefusesEveryTruncation) {
  Rng rng(6);
  for (int i = 0; i < 60; ++i) {
    const Sample sample = test::random_sample(rng);
    const Bytes bytes = encode(sample.update, sample.shape());
    for (std::size_t size = 0; size < bytes.size(); ++size)
      ASSERT_FALSE(decode(ByteView(bytes).first(size), sample.shape())) << size;
  }
}

TEST(Codec, RefusesBytesAfterTheEnd) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    const Sample sample = test::random_sample(rng);
    Bytes bytes = encode(sample.update, sample.shape());
    bytes.push_back(static_cast<std::byte>(rng()));
    ASSERT_FALSE(decode(bytes, sample.shape()));
  }
}

TEST(Codec, JudgesEverySingleFlippedBit) {
  Rng rng(8);
  for (int i = 0; i < 100; ++i) {
    const Sample sample = test::random_sample(rng);
    Bytes bytes = encode(sample.update, sample.shape());
    if (bytes.size() > 300) continue;  // seconds, not minutes
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
      expect_judged(bytes, sample.shape());
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
  }
}

TEST(Codec, JudgesNoise) {
  Rng rng(9);
  for (int i = 0; i < 20000; ++i) {
    const Sample sample = test::random_sample(rng);
    Bytes bytes = encode(sample.update, sample.shape());
    const auto from = test::below(rng, static_cast<std::uint32_t>(bytes.size()));
    for (std::size_t at = from; at < bytes.size() && at < from + 6; ++at)
      bytes[at] = static_cast<std::byte>(rng());
    expect_judged(bytes, sample.shape());
  }
}

TEST(Codec, RefusesAnUpdateOfAnotherShape) {
  Rng rng(10);
  const std::vector<std::uint32_t> tiles(6, 4096);
  const std::vector<std::uint32_t> fewer(5, 4096);
  const std::vector<std::uint32_t> smaller(6, 4);
  Update update = test::uniform_update(rng, tiles, 8, 1);
  update.dense.assign(10, 1.5f);
  const Bytes bytes = encode(update, {10, tiles});
  EXPECT_TRUE(decode(bytes, {10, tiles}));
  for (const Shape& shape : {Shape{9, tiles}, Shape{11, tiles}, Shape{0, tiles}, Shape{10, fewer},
                             Shape{10, smaller}, Shape{10, {}}, Shape{0, {}}})
    EXPECT_FALSE(decode(bytes, shape));
}

TEST(Codec, RefusesCountsAboveTheTileBeforeItMakesRoom) {
  const std::vector<std::uint32_t> tiles(2, 100);
  Bytes bytes(3);
  bytes[0] = std::byte{0x08};
  bytes[1] = bytes[2] = std::byte{0xff};
  const auto refused = decode(bytes, {0, tiles});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.why(), "more coefficients in a tile than it has");
}

TEST(Codec, RefusesACompressedLengthOf2ToThe63) {
  Update update;
  update.dense.assign(100, 1.0f);
  Bytes bytes = encode(update, {100, {}});
  ASSERT_EQ(bytes[0], std::byte{0x65});  // compressed, 32-bit codes
  bytes[12] = std::byte{0x80};           // the highest byte of the length
  EXPECT_FALSE(decode(bytes, {100, {}}));
}

// Only where there are fewer than floats is their number given, and then it is below that.
TEST(Codec, HasOneWayToSayHowManyDenseValuesThereAre) {
  Update update;
  update.dense = {1.0f, 2.0f};
  const Bytes fewer = encode(update, {3, {}});
  const Bytes whole = encode(update, {2, {}});
  EXPECT_EQ(fewer.size(), whole.size() + 8);
  EXPECT_EQ(*decode(fewer, {3, {}}), update);
  EXPECT_EQ(*decode(fewer, {1000, {}}), update);
  EXPECT_FALSE(decode(fewer, {2, {}}));
  EXPECT_FALSE(decode(fewer, {1, {}}));
  EXPECT_FALSE(decode(whole, {3, {}}));
  for (const int count : {0, 1, 3, 255}) {
    Bytes other = fewer;
    other[1] = static_cast<std::byte>(count);
    EXPECT_FALSE(decode(other, {300, {}})) << count;
  }
  EXPECT_FALSE(decode(ByteView(fewer).first(5), {3, {}}));
  Bytes no_dense{std::byte{0x80}};
  EXPECT_FALSE(decode(no_dense, {3, {}}));
}

TEST(Codec, RefusesDenseValuesOfAnotherZstd) {
  Update update;
  update.dense.assign(100, 1.0f);
  Bytes bytes = encode(update, {100, {}});
  bytes[1] ^= std::byte{1};
  const auto refused = decode(bytes, {100, {}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.why().find("use one zstd version"), std::string::npos);
}

TEST(Codec, RefusesScalesThatAreNotFinite) {
  Update update;
  update.picks = {.value_bits = 1, .counts = {1}, .positions = {3}, .codes = {1}, .scales = {2.0f}};
  const std::vector<std::uint32_t> tiles = {8};
  Bytes bytes = encode(update, {0, tiles});
  bytes[bytes.size() - 1] = std::byte{0x7f};
  bytes[bytes.size() - 2] = std::byte{0x80};
  const auto refused = decode(bytes, {0, tiles});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.why(), "scales are missing or not finite");
}

using CodecDeathTest = ::testing::Test;

TEST(CodecDeathTest, WillNotEncodeWhatDoesNotFit) {
  const std::vector<std::uint32_t> tiles = {8, 8};
  const Shape shape{3, tiles};
  const Picks good = {.value_bits = 2,
                      .counts = {2, 1},
                      .positions = {1, 4, 0},
                      .codes = {3, 0, 1},
                      .scales = {1, 2}};
  encode({{}, good}, shape);
  auto expect_abort = [&](auto spoil) {
    Update update{{}, good};
    spoil(update);
    EXPECT_DEATH(encode(update, shape), "broken promise");
  };
  expect_abort([](Update& u) { u.dense.assign(4, 1.0f); });
  expect_abort([](Update& u) { u.picks.positions = {4, 4, 0}; });
  expect_abort([](Update& u) { u.picks.positions = {4, 8, 0}; });
  expect_abort([](Update& u) { u.picks.counts = {2}; });
  expect_abort([](Update& u) { u.picks.counts = {2, 2}; });
  expect_abort([](Update& u) { u.picks.codes = {3, 0, 4}; });
  expect_abort([](Update& u) { u.picks.codes.pop_back(); });
  expect_abort([](Update& u) { u.picks.scales.pop_back(); });
  expect_abort([](Update& u) { u.picks.scales[0] = std::nanf(""); });
  expect_abort([](Update& u) { u.picks.value_bits = 3; });
}

TEST(Splits, GiveEverySymbolItsShareOfTheWhole) {
  for (std::uint32_t n : {2u, 3u, 7u, 91u, 1536u, 4096u, 65535u}) {
    for (std::uint32_t c = 1; c <= n / 2; c = c < 40 ? c + 1 : c * 3) {
      const Split split(n, c);
      std::uint32_t below = 0;
      for (std::uint32_t j = 0; j <= c; ++j) {
        const Share share = split.share(j);
        ASSERT_EQ(share.below, below);
        ASSERT_GE(share.width, 1u);
        ASSERT_EQ(split.symbol(share.below), j);
        ASSERT_EQ(split.symbol(share.below + share.width - 1), j);
        below += share.width;
      }
      ASSERT_EQ(below, kTotalMax);
    }
  }
}

TEST(RangeCoder, CarriesThroughAnyRunOfFullBytes) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint32_t> symbols;
    Bytes bytes;
    RangeEncoder encoder(bytes);
    for (int i = 0; i < 200; ++i) {  // mostly the topmost symbol: low creeps up to the carry
      symbols.push_back(rng() % 16 ? 65535 : test::below(rng, 65536));
      encoder.encode_uniform(symbols.back(), 65536);
    }
    encoder.finish();
    RangeDecoder decoder(bytes);
    for (std::uint32_t symbol : symbols) ASSERT_EQ(decoder.decode_uniform(65536), symbol);
    EXPECT_TRUE(decoder.exact());
    EXPECT_EQ(decoder.bytes_read(), bytes.size());
  }
}

}  // namespace
}  // namespace thinwire
