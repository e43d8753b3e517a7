// The tile kernels of devices against those of the host. The card is emulated (tests/support).
#include "tests/support/device_tiles.h"

#include <gtest/gtest.h>

#include <bit>
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
using testing_support::kCard;
using testing_support::normal_floats;
using testing_support::on_avx2;
using testing_support::padded_world;
using testing_support::said_of;
using testing_support::SaidOfAll;
using testing_support::World;

constexpr Basis kBases[] = {Basis::dct, Basis::hadamard, Basis::none};

std::vector<float> parameters(const World& world) {
  std::vector<float> x = normal_floats(world.size() + 11, 12);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = i % 2 == 0 ? -0.0f : 0.0f;
  return x;
}

// What extract reads and writes, in the same state on both devices.
struct Owing {
  Owing(const World& world, std::size_t list_k, std::vector<float> given, unsigned seed)
      : values(std::move(given)),
        residual(normal_floats(world.coefficients(), seed)),
        lists(world.tiles().size() * stride(list_k), -7.0f),
        k(list_k) {}
  static std::size_t stride(std::size_t k) { return 4 * k + 3; }
  Lists of(Floats floats) const {
    return {.floats = floats, .first = 2 * k + 1, .stride = stride(k), .k = k};
  }

  std::vector<float> values;
  std::vector<float> residual;
  std::vector<float> lists;
  std::size_t k;
  Chosen chosen;
};

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

// Equal to the bit where the host's transform rounds as often as the device's, close elsewhere.
void expect_twins(const World& world, const Owing& owing, const Extract& how) {
  const Owing card = extract_on_card(world, owing, how);
  const bool compared = on_avx2([&] { expect_equal(extract_on_host(world, owing, how), card); });
  if (compared) return;
  const Owing host = extract_on_host(world, owing, how);
  ASSERT_EQ(host.residual.size(), card.residual.size());
  for (std::size_t i = 0; i < card.chosen.counts.size(); ++i) {
    EXPECT_EQ(host.chosen.counts[i], card.chosen.counts[i])
        << "no AVX2 here, whose fused multiply-add the device's transform shares: only counts "
           "are compared";
  }
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
      std::size_t entry = 0;
      for (std::size_t i = 0; i < world.tiles().size(); ++i) {
        const Tile& tile = world.tiles()[i];
        const std::size_t size = tile.height * tile.width;
        const Floats before = Floats(owing.residual).subspan(tile.coefficients, size);
        kernels::fold(tile, owing.values, how.decay, how.scale, before, basis);
        std::vector<float> all(card.residual.begin() + tile.coefficients,
                               card.residual.begin() + tile.coefficients + size);
        std::vector<std::uint16_t> positions;
        for (std::size_t pick = 0; pick < card.chosen.counts[i]; ++pick, ++entry) {
          positions.push_back(card.chosen.positions[entry]);
          EXPECT_EQ(all.at(positions.back()), 0.0f);
          all.at(positions.back()) = card.chosen.values[entry];
        }
        std::vector<std::uint16_t> wanted(size);
        wanted.resize(kernels::top_k(all, k, wanted.data()));
        EXPECT_EQ(positions, wanted);
        for (std::size_t p = 0; p < size; ++p) EXPECT_NEAR(all[p], before[p], 1e-5f);
      }
    }
  }
}

// What is chosen waits for the host in 8 MB: with so large a k a few hundred tiles fill them.
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

TEST(DeviceTiles, StepsAlongWhatWasSaidAreTheHostsToTheBit) {
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
TEST(DeviceTiles, FullTilesOfWholeVotesAreTheHosts) {
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

TEST(DeviceTiles, NothingSaidStillKeeps) {
  const World world = padded_world();
  SaidOfAll said = said_of(world, 0, 1);
  for (const float rate : {0.01f, 0.0f, -0.01f}) {
    for (const bool sign : {true, false}) {
      expect_equal_steps(world, said.votes(), {.keep = 0.5f, .rate = rate, .sign = sign});
    }
  }
}

// Lists begin anywhere in what was said, and a buffer may begin with a piece.
TEST(DeviceTiles, SomeTilesFromAnOriginOn) {
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

TEST(DeviceTiles, InversesAreTheSameInEveryOrderOfThreads) {
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

TEST(DeviceTiles, WhatIsOwedIsTheHosts) {
  const World world = padded_world();
  for (const std::size_t k : {10u, 130u}) {
    const Owing owing = owing_lists(world, k);
    for (const Basis basis : kBases) {
      const Owed card = owed_of(world, owing, basis, kCard);
      const bool compared = on_avx2([&] {
        const Owed host = owed_of(world, owing, basis, {});
        EXPECT_EQ(bits_of(card.z), bits_of(host.z));
        EXPECT_EQ(card.squares, host.squares);
      });
      if (compared) continue;
      const Owed host = owed_of(world, owing, basis, {});  // which rounds more often, without FMA
      for (std::size_t i = 0; i < host.z.size(); ++i) EXPECT_NEAR(card.z[i], host.z[i], 1e-4f);
    }
  }
}

TEST(DeviceTiles, WhatIsOwedInOtherSidesIsClose) {
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
