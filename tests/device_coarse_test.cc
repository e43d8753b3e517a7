// Values in a few bits, whole tiles of them, on a device and on the host, and both against the
// definition of a single value. The card is emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/coarse_words.h"
#include "tests/support/device_orders.h"
#include "tests/support/device_tiles.h"
#include "thinwire/coarse_kernels.h"
#include "thinwire/device.h"

namespace thinwire {
namespace {

using kernels::Words;
using namespace testing_support;  // NOLINT: its kinds of values go by plain names

using Values = std::vector<float>;

constexpr Coarse kAll[] = {Coarse::plain, Coarse::sign, Coarse::two_bit, Coarse::e3m0};

void expect_equal(const Words& a, const Words& b) {
  ASSERT_EQ(a.counts, b.counts);
  ASSERT_EQ(a.positions, b.positions);
  ASSERT_EQ(a.codes, b.codes);
  ASSERT_EQ(bits_of(a.scales), bits_of(b.scales));
}

struct Kind {
  const char* name;
  Values (*of)(const World& world);
};
constexpr Kind kKinds[] = {{"ordinary", ordinary}, {"with_zeros", with_zeros},
                           {"zeros", zeros},       {"of_all_sizes", of_all_sizes},
                           {"huge", huge},         {"not_finite", not_finite}};

// body(world, values): all kinds, in tiles of all forms.
template <class Body>
void for_each_case(const Body& body) {
  for (const World& world : {padded_world(), divisor_world()}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(kind.name);
      body(world, kind.of(world));
    }
  }
}

void expect_said(const World& world, Coarse coarse, const Values& values) {
  Values owed = values;
  const Words expected = say_singly(world, coarse, owed);

  Values here = values;
  Words on_host = something();
  kernels::say_coarse(world.tiles(), coarse, here, on_host);
  expect_equal(on_host, expected);
  ASSERT_EQ(bits_of(here), bits_of(owed));

  FloatBuffer there(values, kCard);
  Words on_card = something();
  kernels::say_coarse(world.tiles(), coarse, there, on_card);
  expect_equal(on_card, expected);
  ASSERT_EQ(bits_of(to_host(there)), bits_of(owed));
}

TEST(DeviceCoarse, WordsAndWhatIsOwedAreThoseOfSingleValues) {
  for_each_case([](const World& world, const Values& values) {
    for (const Coarse coarse : kAll) {
      SCOPED_TRACE(code_bits(coarse));
      expect_said(world, coarse, values);
    }
  });
}

TEST(DeviceCoarse, WordsAreTheSameInEveryOrderOfThreads) {
  const World world = padded_world();
  for_each_order([&](const std::string& order) {
    SCOPED_TRACE(order);
    for (const Coarse coarse : kAll) expect_said(world, coarse, of_all_sizes(world));
    expect_said(world, Coarse::e3m0, not_finite(world));
  });
}

// 1 + 2^-24 lies between two floats: what follows it is lost, what precedes it decides.
TEST(DeviceCoarse, MagnitudesAreSummedInTheirOrder) {
  const World world = World().add(64, 64, 64, 64);
  Values values(world.size(), 0x1p-54f);
  values[0] = 1.0f;
  values[1] = 0x1p-24f;
  for (const float expected : {0x1p-12f, std::nextafter(0x1p-12f, 1.0f)}) {
    for (const Device device : {Device(), kCard}) {
      for (const Coarse coarse : {Coarse::sign, Coarse::two_bit}) {
        FloatBuffer there(values, device);
        Words words;
        kernels::say_coarse(world.tiles(), coarse, there, words);
        EXPECT_EQ(words.scales, Values{expected});
      }
    }
    std::reverse(values.begin(), values.end());
  }
}

TEST(DeviceCoarse, TilesThatAreNotFiniteSayNothingAndOweNothing) {
  const World world = World().add(128, 64, 64, 64);
  for (const Device device : {Device(), kCard}) {
    for (const Coarse coarse : kAll) {
      Values values(world.size(), 1.0f);
      values[4095] = std::nanf("");
      FloatBuffer there(values, device);
      Words words;
      kernels::say_coarse(world.tiles(), coarse, there, words);
      EXPECT_EQ(words.counts, (std::vector<std::uint16_t>{0, 4096}));
      EXPECT_EQ(words.scales.size(), coarse == Coarse::plain ? 0u : 1u);
      EXPECT_EQ(to_host(there)[4095], 0.0f);
      EXPECT_EQ(to_host(there)[0], 0.0f);
    }
  }
}

TEST(DeviceCoarse, SignsAreThoseOfAllValuesThatAreNotZero) {
  for_each_case([](const World& world, const Values& values) {
    const Words expected = say_signs_singly(world, values);
    Words on_host = something();
    kernels::say_signs(world.tiles(), values, on_host);
    expect_equal(on_host, expected);
    const FloatBuffer there(values, kCard);
    for_each_order([&](const std::string& order) {
      SCOPED_TRACE(order);
      Words on_card = something();
      kernels::say_signs(world.tiles(), there, on_card);
      expect_equal(on_card, expected);
    });
  });
}

// ---- adding up

// Some of the positions of each tile, of every third none, and what codes they may have.
Words some_words(const World& world, Coarse coarse, unsigned seed) {
  std::mt19937 engine(seed);
  const std::uint32_t codes = coarse == Coarse::plain ? 0 : (1u << code_bits(coarse)) - 1;
  Words words;
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    const Tile& tile = world.tiles()[i];
    const std::size_t size = tile.height * tile.width;
    const std::size_t count = i % 3 == 1 ? 0 : i % 3 == 0 ? size : (size + 1) / 2;
    words.counts.push_back(static_cast<std::uint16_t>(count));
    for (const std::uint16_t p : testing_support::some_positions(size, count, seed + i)) {
      words.positions.push_back(p);
      words.codes.push_back(codes == 0 ? std::bit_cast<std::uint32_t>(normal_floats(1, p)[0])
                                       : engine() & codes);
    }
    if (count > 0 && codes != 0) {
      words.scales.push_back(i % 4 == 0 ? 3e38f : i % 4 == 2 ? 1e-44f : 0.37f);
    }
  }
  return words;
}

void expect_added(const World& world, Coarse coarse, const Words& words) {
  const Values before = with_zeros(world);
  Values expected = before;
  add_singly(world, coarse, words, expected, [&](std::size_t spoken) {
    return words.scales.empty() ? 0.0f : words.scales[spoken];
  });
  Values here = before;
  kernels::add_coarse(world.tiles(), coarse, view_of(words), here);
  ASSERT_EQ(bits_of(here), bits_of(expected));
  FloatBuffer there(before, kCard);
  kernels::add_coarse(world.tiles(), coarse, view_of(words), there);
  ASSERT_EQ(bits_of(to_host(there)), bits_of(expected));
}

// Among the positions are those of the padding, where nothing is.
TEST(DeviceCoarse, WordsAreAddedUpAsSingleValues) {
  for (const World& world : {padded_world(), divisor_world()}) {
    for (const Coarse coarse : kAll) {
      SCOPED_TRACE(code_bits(coarse));
      const Words words = some_words(world, coarse, 5);
      for_each_order([&](const std::string&) { expect_added(world, coarse, words); });
    }
  }
}

TEST(DeviceCoarse, SignsAreAddedUpAsOnes) {
  const World world = padded_world();
  Words words = some_words(world, Coarse::sign, 6);
  words.scales.clear();
  Values expected = with_zeros(world);
  FloatBuffer there(expected, kCard);
  Values here = expected;
  add_singly(world, Coarse::sign, words, expected, [](std::size_t) { return 1.0f; });
  kernels::add_signs(world.tiles(), view_of(words), here);
  kernels::add_signs(world.tiles(), view_of(words), there);
  EXPECT_EQ(bits_of(here), bits_of(expected));
  EXPECT_EQ(bits_of(to_host(there)), bits_of(expected));
}

TEST(DeviceCoarse, WithoutWordsOrScalesNothingIsAdded) {
  const World world = padded_world();
  const Values before = ordinary(world);
  Words unscaled = some_words(world, Coarse::e3m0, 6);
  unscaled.scales.clear();
  for (const Device device : {Device(), kCard}) {
    FloatBuffer there(before, device);
    kernels::add_coarse(world.tiles(), Coarse::e3m0, view_of(unscaled), there);
    kernels::add_coarse(world.tiles(), Coarse::sign, {}, there);
    kernels::add_signs(world.tiles(), {}, there);
    EXPECT_EQ(bits_of(to_host(there)), bits_of(before));
  }
}

// More than what waits on a device at a time, in both directions.
TEST(DeviceCoarse, ManyTilesGoInSeveralBatches) {
  const World world = World().add(64 * 520, 64, 64, 64).add(3, 64, 64, 64, 29);
  expect_said(world, Coarse::plain, ordinary(world));
  expect_said(world, Coarse::e3m0, not_finite(world));
  expect_added(world, Coarse::e3m0, some_words(world, Coarse::e3m0, 7));
}

TEST(DeviceCoarse, SomeTilesAreOnlyThose) {
  const World world = padded_world();
  const Tiles some = world.tiles().some(3, 2);
  Values here = ordinary(world);
  FloatBuffer there(here, kCard);
  Words on_host, on_card;
  kernels::say_coarse(some, Coarse::two_bit, here, on_host);
  kernels::say_coarse(some, Coarse::two_bit, there, on_card);
  EXPECT_EQ(on_card.counts.size(), 2u);
  expect_equal(on_card, on_host);
  EXPECT_EQ(bits_of(to_host(there)), bits_of(here));
}

}  // namespace
}  // namespace thinwire
