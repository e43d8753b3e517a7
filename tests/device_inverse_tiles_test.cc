// What all tiles do with what was said, on a device and on the host. The card is emulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "tests/support/device_orders.h"
#include "tests/support/device_tiles.h"
#include "thinwire/device.h"
#include "thinwire/tile_kernels.h"

namespace thinwire {
namespace {

using kernels::Along;
using kernels::Basis;
using kernels::Lists;
using testing_support::bits_of;
using testing_support::divisor_world;
using testing_support::for_each_order;
using testing_support::for_each_target;
using testing_support::fuses;
using testing_support::kCard;
using testing_support::Owing;
using testing_support::padded_world;
using testing_support::parameters;
using testing_support::said_of;
using testing_support::SaidOfAll;
using testing_support::World;

constexpr Basis kBases[] = {Basis::dct, Basis::hadamard, Basis::none};

// ---- what was said

void expect_equal_steps(const World& world, const kernels::Said& said, const Along& how) {
  std::vector<float> x = parameters(world);
  FloatBuffer there(x, kCard);
  kernels::step_along(world.tiles(), said, how, 0, there);
  kernels::step_along(world.tiles(), said, how, 0, x);
  EXPECT_EQ(bits_of(to_host(there)), bits_of(x));
}

void expect_equal_inverses(const World& world, const kernels::Said& said, Basis basis) {
  std::vector<float> z = parameters(world);
  FloatBuffer there(z, kCard);
  const double on_card = kernels::inverse_said(world.tiles(), said, basis, 0, there);
  const double on_host = kernels::inverse_said(world.tiles(), said, basis, 0, z);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(on_card), std::bit_cast<std::uint64_t>(on_host));
  EXPECT_EQ(bits_of(to_host(there)), bits_of(z));
}

TEST(DeviceInverseTiles, StepsAlongWhatWasSaidAreTheHostsToTheBit) {
  for (const World& world : {padded_world(), divisor_world()}) {
    for (const Basis basis : kBases) {
      for (const std::size_t set : {1u, 40u, 300u}) {
        SCOPED_TRACE(::testing::Message() << "basis " << static_cast<int>(basis) << ", " << set);
        const SaidOfAll said = said_of(world, set, 20 + set);
        for (const bool sign : {true, false}) {
          const Along how{.keep = 0.9f, .rate = 0.01f, .sign = sign, .basis = basis};
          expect_equal_steps(world, said.votes(), how);
          expect_equal_steps(world, said.floats(), how);
        }
        expect_equal_inverses(world, said.votes(), basis);
        expect_equal_inverses(world, said.floats(), basis);
      }
    }
  }
}

// Rows that are full of whole votes reach the clamp.
TEST(DeviceInverseTiles, FullTilesOfWholeVotesAreTheHosts) {
  const World world = World().add(64, 64, 64, 64).add(32, 64, 32, 64).add(64, 48, 64, 48);
  for (const Basis basis : kBases) {
    SaidOfAll said = said_of(world, 4096, 30);
    for (std::size_t i = 0; i < said.weights.size(); ++i) {
      said.weights[i] = i % 128 < 70 ? 4096 : -4096;
    }
    expect_equal_steps(world, said.votes(), {.keep = 1.0f, .rate = 0.1f, .basis = basis});
    expect_equal_inverses(world, said.votes(), basis);
    std::fill(said.weights.begin(), said.weights.end(), 4096);
    expect_equal_inverses(world, said.votes(), basis);
  }
}

TEST(DeviceInverseTiles, NothingSaidStillKeeps) {
  const World world = padded_world();
  SaidOfAll said = said_of(world, 0, 1);
  for (const float rate : {0.01f, 0.0f, -0.01f}) {
    for (const bool sign : {true, false}) {
      expect_equal_steps(world, said.votes(), {.keep = 0.5f, .rate = rate, .sign = sign});
    }
  }
}

// Lists begin anywhere in what was said, and a buffer may begin with a piece.
TEST(DeviceInverseTiles, SomeTilesFromAnOriginOn) {
  const World world = padded_world();
  const SaidOfAll said = said_of(world, 30, 2);
  const Tiles some = world.tiles().some(3, 3);
  const std::size_t origin = some.front().offset;
  kernels::Said of_some = said.votes();
  of_some.begin = of_some.begin.subspan(3, 4);
  std::vector<float> x(world.size() - origin, 1.0f);
  FloatBuffer there(x, kCard);
  kernels::step_along(some, of_some, {.rate = 0.5f}, origin, there);
  kernels::step_along(some, of_some, {.rate = 0.5f}, origin, x);
  EXPECT_EQ(bits_of(to_host(there)), bits_of(x));
}

TEST(DeviceInverseTiles, InversesAreTheSameInEveryOrderOfThreads) {
  const World world = padded_world();
  const SaidOfAll said = said_of(world, 50, 2);
  for_each_order([&](const std::string& order) {
    SCOPED_TRACE(order);
    expect_equal_inverses(world, said.votes(), Basis::dct);
    expect_equal_inverses(world, said.floats(), Basis::dct);
    expect_equal_steps(world, said.floats(), {.keep = 0.9f, .rate = 0.1f});
  });
}

// ---- what is owed

struct Owed {
  std::vector<float> z;
  double squares = 0.0;
};

Owed owed_of(const World& world, const Owing& owing, Basis basis, Device device) {
  const FloatBuffer residual(owing.residual, device);
  FloatBuffer floats(owing.lists, device);
  FloatBuffer z(world.size(), device);
  Lists second = owing.of(floats);
  second.first = 1;
  const std::vector<Lists> lists{owing.of(floats), second};
  const double squares = kernels::inverse_owed(world.tiles(), residual, lists, basis, 0, z);
  return {to_host(z), squares};
}

// The two lists of a tile overlap in the buffer no more than their strides allow.
Owing owing_lists(const World& world, std::size_t k) {
  Owing owing(world, k, std::vector<float>(world.size()), 40);
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    const Tile& tile = world.tiles()[i];
    const std::size_t size = tile.height * tile.width;
    for (const std::size_t first : {std::size_t{1}, 2 * k + 1}) {
      float* list = owing.lists.data() + first + i * Owing::stride(k);
      const std::size_t count = std::min(size, i % 2 == 0 ? k : k / 2);
      const auto positions = testing_support::some_positions(size, count, 50 + i + first);
      std::fill(list, list + 2 * k, 9.0f);
      std::copy(positions.begin(), positions.end(), list);
      for (std::size_t p = 0; p < count; ++p) list[k + p] = 0.5f + static_cast<float>(p % 7);
      if (count < k) list[k + count] = 0.0f;
      if (i == 1) list[0] = static_cast<float>(size);  // no place
    }
  }
  return owing;
}

TEST(DeviceInverseTiles, WhatIsOwedIsTheHosts) {
  const World world = padded_world();
  for (const std::size_t k : {10u, 130u}) {
    const Owing owing = owing_lists(world, k);
    for (const Basis basis : kBases) {
      const Owed card = owed_of(world, owing, basis, kCard);
      for_each_target([&](const std::string& target) {
        SCOPED_TRACE(target);
        const Owed host = owed_of(world, owing, basis, {});
        if (fuses(target)) {
          EXPECT_EQ(bits_of(card.z), bits_of(host.z));
          EXPECT_EQ(card.squares, host.squares);
        }
        for (std::size_t i = 0; i < host.z.size(); ++i) ASSERT_NEAR(card.z[i], host.z[i], 2e-5f);
      });
    }
  }
}

TEST(DeviceInverseTiles, WhatIsOwedInOtherSidesIsClose) {
  const World world = divisor_world();
  const Owing owing = owing_lists(world, 20);
  for (const Basis basis : kBases) {
    const Owed card = owed_of(world, owing, basis, kCard);
    const Owed host = owed_of(world, owing, basis, {});
    for (std::size_t i = 0; i < host.z.size(); ++i) EXPECT_NEAR(card.z[i], host.z[i], 2e-5f);
    EXPECT_NEAR(card.squares / host.squares, 1.0, 1e-5);
  }
}

}  // namespace
}  // namespace thinwire
