// What a site says, on a device and on the host. The card is emulated (tests/support).
#include "tests/support/device_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/device_orders.h"
#include "thinwire/device.h"
#include "thinwire/tile_kernels.h"

namespace thinwire {
namespace {

using kernels::Along;
using kernels::Basis;
using kernels::Chosen;
using kernels::Extract;
using kernels::Lists;
using testing_support::bits_of;
using testing_support::divisor_world;
using testing_support::for_each_order;
using testing_support::for_each_target;
using testing_support::fuses;
using testing_support::kCard;
using testing_support::normal_floats;
using testing_support::Owing;
using testing_support::padded_world;
using testing_support::parameters;
using testing_support::said_of;
using testing_support::SaidOfAll;
using testing_support::World;

constexpr Basis kBases[] = {Basis::dct, Basis::hadamard, Basis::none};

Owing extract_on_host(const World& world, Owing owing, const Extract& how) {
  kernels::extract(world.tiles(), owing.values, 0, how, owing.residual, owing.of(owing.lists),
                   owing.chosen);
  return owing;
}

Owing extract_on_card(const World& world, Owing owing, const Extract& how) {
  const FloatBuffer values(owing.values, kCard);
  FloatBuffer residual(owing.residual, kCard);
  FloatBuffer lists(owing.lists, kCard);
  kernels::extract(world.tiles(), values, 0, how, residual, owing.of(lists), owing.chosen);
  owing.residual = to_host(residual);
  owing.lists = to_host(lists);
  return owing;
}

void expect_equal(const Owing& a, const Owing& b) {
  EXPECT_EQ(a.chosen.counts, b.chosen.counts);
  EXPECT_EQ(a.chosen.positions, b.chosen.positions);
  EXPECT_EQ(bits_of(a.chosen.values), bits_of(b.chosen.values));
  EXPECT_EQ(bits_of(a.residual), bits_of(b.residual));
  EXPECT_EQ(bits_of(a.lists), bits_of(b.lists));
}

// The residual as it was before anything was taken from it.
std::vector<float> before_choice(const World& world, const Owing& owing) {
  std::vector<float> all = owing.residual;
  std::size_t entry = 0;
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    for (std::size_t pick = 0; pick < owing.chosen.counts[i]; ++pick, ++entry) {
      all[world.tiles()[i].coefficients + owing.chosen.positions[entry]] =
          owing.chosen.values[entry];
    }
  }
  return all;
}

// Equal to the bit where the host's transform rounds as often as the device's, close elsewhere.
void expect_twins(const World& world, const Owing& owing, const Extract& how) {
  const Owing card = extract_on_card(world, owing, how);
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    const Owing host = extract_on_host(world, owing, how);
    if (fuses(target)) return expect_equal(host, card);
    const std::vector<float> on_host = before_choice(world, host);
    const std::vector<float> on_card = before_choice(world, card);
    for (std::size_t i = 0; i < on_host.size(); ++i) ASSERT_NEAR(on_host[i], on_card[i], 1e-5f);
  });
}

TEST(DeviceTiles, ExtractIsTheHostsToTheBit) {
  const World world = padded_world();
  for (const Basis basis : kBases) {
    for (const int k : {1, 8, 16, 32, 64, 65, 700, 4096}) {
      SCOPED_TRACE(::testing::Message() << "basis " << static_cast<int>(basis) << ", k " << k);
      const Owing owing(world, k + k % 3, normal_floats(world.size(), k), 5);
      expect_twins(world, owing,
                   {.decay = 0.9f, .scale = 0.3f, .subtract = 0.7f, .k = k, .basis = basis});
    }
  }
}

TEST(DeviceTiles, ExtractIsTheSameInEveryOrderOfThreads) {
  const World world = padded_world();
  for (const int k : {8, 64, 300}) {
    const Owing owing(world, k, normal_floats(world.size(), 3), 4);
    const Extract how{.decay = 0.9f, .scale = 1.0f, .subtract = 1.0f, .k = k};
    const Owing forward = extract_on_card(world, owing, how);
    for_each_order([&](const std::string& order) {
      SCOPED_TRACE(order);
      expect_equal(extract_on_card(world, owing, how), forward);
    });
  }
}

// Of equal magnitudes the first are taken, and never a zero.
TEST(DeviceTiles, TiesZerosAndFewValues) {
  const World world = padded_world();
  std::vector<float> signs(world.size());
  for (std::size_t i = 0; i < signs.size(); ++i) signs[i] = static_cast<float>(i * 7 % 3) - 1.0f;
  std::vector<float> few(world.size());
  for (std::size_t i = 0; i < few.size(); i += 997) few[i] = 1.0f + static_cast<float>(i % 2);
  const std::vector<float> zeros(world.size());
  for (const int k : {1, 16, 64, 65, 1500, 4096}) {
    for (const std::vector<float>& values : {signs, few, zeros}) {
      Owing owing(world, k, values, 1);
      std::fill(owing.residual.begin(), owing.residual.end(), -0.0f);
      SCOPED_TRACE(k);
      expect_twins(world, owing, {.decay = 1.0f, .scale = 1.0f, .k = k, .basis = Basis::none});
      expect_twins(world, owing, {.decay = 1.0f, .scale = 1.0f, .k = k, .basis = Basis::hadamard});
    }
  }
}

// The rest of the sides are transformed by other sums than the host's, but as close to the truth.
TEST(DeviceTiles, ExtractOfOtherSidesIsAsGood) {
  const World world = divisor_world();
  for (const Basis basis : kBases) {
    for (const int k : {1, 16, 64, 700}) {
      SCOPED_TRACE(::testing::Message() << "basis " << static_cast<int>(basis) << ", k " << k);
      Owing owing(world, k, normal_floats(world.size(), k), 6);
      const Extract how{.decay = 0.5f, .scale = 2.0f, .subtract = 1.0f, .k = k, .basis = basis};
      const Owing card = extract_on_card(world, owing, how);
      const std::vector<float> all = before_choice(world, card);
      std::size_t entry = 0;
      for (std::size_t i = 0; i < world.tiles().size(); ++i) {
        const Tile& tile = world.tiles()[i];
        const std::size_t size = tile.height * tile.width;
        const Floats wanted = Floats(owing.residual).subspan(tile.coefficients, size);
        const ConstFloats made = ConstFloats(all).subspan(tile.coefficients, size);
        kernels::fold(tile, owing.values, how.decay, how.scale, wanted, basis);
        for (std::size_t p = 0; p < size; ++p) ASSERT_NEAR(made[p], wanted[p], 1e-5f);
        std::vector<std::uint16_t> positions(size);
        positions.resize(kernels::top_k(made, k, positions.data()));
        ASSERT_EQ(card.chosen.counts[i], positions.size());
        for (const std::uint16_t position : positions) {
          EXPECT_EQ(card.chosen.positions[entry++], position);
          EXPECT_EQ(card.residual[tile.coefficients + position], 0.0f);
        }
      }
    }
  }
}

TEST(DeviceTiles, ManyTilesComeOverInSeveralBatches) {
  const World world = World().add(64 * 350, 64, 64, 64);
  std::vector<float> few(world.size());
  for (std::size_t i = 0; i < few.size(); i += 1009) few[i] = 1.0f + static_cast<float>(i % 5);
  Owing owing(world, 4096, few, 1);
  std::fill(owing.residual.begin(), owing.residual.end(), 0.0f);
  expect_twins(world, owing, {.k = 4096, .basis = Basis::none});
}

// The basis tables are brought to each device once, whoever comes first.
TEST(DeviceTiles, SeveralThreadsAndDevicesDoTheSame) {
  const World world = divisor_world();
  const SaidOfAll said = said_of(world, 40, 3);
  const std::vector<float> before = parameters(world);
  std::vector<float> host = before;
  const Along how{.keep = 0.9f, .rate = 0.1f, .basis = Basis::hadamard};
  kernels::step_along(world.tiles(), said.votes(), how, 0, host);
  std::vector<std::vector<float>> cards(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      FloatBuffer there(before, Device::cuda(i % cuda_devices()));
      kernels::step_along(world.tiles(), said.votes(), how, 0, there);
      cards[i] = to_host(there);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& card : cards) EXPECT_EQ(bits_of(card), bits_of(host));
}

TEST(DeviceTiles, WhatWasSaidIsGivenBackExactly) {
  const World world = padded_world();
  const std::size_t k = 20;
  const Owing owing(world, k, std::vector<float>(world.size()), 8);
  FloatBuffer residual(owing.residual, kCard);
  FloatBuffer lists(owing.lists, kCard);
  const FloatBuffer values(owing.values, kCard);
  Chosen chosen;
  kernels::extract(world.tiles(), values, 0, {.k = 20}, residual, owing.of(lists), chosen);
  EXPECT_NE(bits_of(to_host(residual)), bits_of(owing.residual));
  kernels::give_back(world.tiles(), owing.of(lists), chosen.counts, residual);
  EXPECT_EQ(bits_of(to_host(residual)), bits_of(owing.residual));
}

TEST(DeviceTiles, PlacesOutsideTheTileAreLeftOut) {
  const World world = divisor_world();
  const std::size_t k = 5;
  Owing owing(world, k, std::vector<float>(world.size()), 9);
  const Lists lists = owing.of(owing.lists);
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    float* list = owing.lists.data() + lists.first + i * lists.stride;
    const float places[] = {0.0f, -1.0f, 4096.0f, std::nanf(""), 3.0f};
    std::copy(std::begin(places), std::end(places), list);
    std::fill(list + k, list + 2 * k, 0.25f);
  }
  const std::vector<std::uint16_t> counts(world.tiles().size(), 5);
  FloatBuffer residual(owing.residual, kCard);
  FloatBuffer there(owing.lists, kCard);
  kernels::give_back(world.tiles(), owing.of(there), counts, residual);
  kernels::give_back(world.tiles(), lists, counts, owing.residual);
  EXPECT_EQ(bits_of(to_host(residual)), bits_of(owing.residual));

  kernels::clear(world.tiles(), owing.of(there));
  kernels::clear(world.tiles(), lists);
  EXPECT_EQ(bits_of(to_host(there)), bits_of(owing.lists));
}

}  // namespace
}  // namespace thinwire
