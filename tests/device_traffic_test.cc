// What the extract kernel reads and writes of a device's memory, counted where it does so: the
// kernel's own source, over pointers that keep a tally. docs/gpu_kernels.md rests on these figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/extract.cuh"
#include "tests/support/device_tiles.h"
#include "thinwire/device.h"
#include "thinwire/tile_kernels.h"

namespace thinwire {
namespace {

using kernels::Basis;
using testing_support::bits_of;
using testing_support::kCard;
using testing_support::normal_floats;
using testing_support::padded_world;
using testing_support::World;

// In bytes; by many threads.
struct Tally {
  std::atomic<std::size_t> read{0};
  std::atomic<std::size_t> written{0};
};

template <class T>
class Counted {
 public:
  class Place {
   public:
    Place(T* at, Tally* tally) : at_(at), tally_(tally) {}
    operator T() const {
      tally_->read += sizeof(T);
      return *at_;
    }
    void operator=(T value) const {
      tally_->written += sizeof(T);
      *at_ = value;
    }

   private:
    T* at_;
    Tally* tally_;
  };

  Counted() = default;
  Counted(T* first, Tally* tally) : first_(first), tally_(tally) {}
  Counted operator+(std::size_t by) const { return {first_ + by, tally_}; }
  Place operator[](std::size_t i) const { return {first_ + i, tally_}; }

 private:
  T* first_ = nullptr;
  Tally* tally_ = nullptr;
};
template <>
class Counted<const float> {
 public:
  Counted() = default;
  Counted(const float* first, Tally* tally) : first_(first), tally_(tally) {}
  Counted operator+(std::size_t by) const { return {first_ + by, tally_}; }
  float operator[](std::size_t i) const {
    tally_->read += sizeof(float);
    return first_[i];
  }

 private:
  const float* first_ = nullptr;
  Tally* tally_ = nullptr;
};

struct Tallies {
  Tally values;
  Tally residual;
  Tally coded;  // counts, places and values, and the tile's list
};

// Of all tiles of `world`, which are 64 x 64; lists have room for list_k.
void count(const World& world, unsigned k, std::size_t list_k, Tallies& tallies) {
  const std::size_t tiles = world.tiles().size();
  const std::vector<float> given = normal_floats(world.size(), 1);
  const std::vector<float> owed = normal_floats(world.coefficients(), 2);
  const FloatBuffer values(given, kCard);
  FloatBuffer residual(owed, kCard);
  FloatBuffer lists(tiles * 2 * list_k, kCard);
  const device::Array<std::uint16_t> counts(kCard, tiles);
  const device::Array<std::uint16_t> positions(kCard, tiles * k);
  const device::Array<float> chosen(kCard, tiles * k);
  const kernels::TilesThere there(world.tiles(), kCard);
  kernels::ExtractTask<Counted> task{};
  task.tiles = there.get();
  task.values = {values.floats().data(), &tallies.values};
  task.residual = {residual.floats().data(), &tallies.residual};
  task.decay = 0.9f;
  task.scale = 1.0f;
  task.subtract = 1.0f;
  task.k = k;
  task.lists = {lists.floats().data(), &tallies.coded};
  task.lists_stride = 2 * list_k;
  task.lists_k = list_k;
  task.counts = {counts.get(), &tallies.coded};
  task.positions = {positions.get(), &tallies.coded};
  task.chosen = {chosen.get(), &tallies.coded};
  kernels::Factors factors;
  const auto& forward = kernels::side(Basis::dct, kernels::kSideMax).forward;
  std::copy(forward.begin(), forward.end(), factors.of);
  device::launch(kCard.index(), kernels::extract_full<Basis::dct, Counted>,
                 {static_cast<unsigned>(tiles), kernels::kTileThreads}, factors, task);
  wait_for(kCard);

  // It was the same kernel: it leaves what extract leaves.
  FloatBuffer twin(owed, kCard);
  FloatBuffer twin_lists(tiles * 2 * list_k, kCard);
  kernels::Chosen twin_chosen;
  kernels::extract(world.tiles(), values, 0, {.decay = 0.9f, .k = static_cast<int>(k)}, twin,
                   {.floats = twin_lists, .stride = 2 * list_k, .k = list_k}, twin_chosen);
  EXPECT_EQ(bits_of(to_host(residual)), bits_of(to_host(twin)));
}

TEST(DeviceTraffic, ExtractTouchesAParameterThreeTimes) {
  const World world = World().add(128, 192, 64, 64);
  for (const unsigned k : {1u, 32u, 64u, 500u}) {
    Tallies tallies;
    count(world, k, k, tallies);
    const std::size_t tiles = world.tiles().size();
    EXPECT_EQ(tallies.values.read, 4 * world.size());
    EXPECT_EQ(tallies.values.written, 0u);
    EXPECT_EQ(tallies.residual.read, 4 * world.size());
    EXPECT_EQ(tallies.residual.written, 4 * world.size());
    EXPECT_EQ(tallies.coded.read, 0u);
    EXPECT_EQ(tallies.coded.written, tiles * (2 + 6 * k + 8 * k));
    const std::size_t all = tallies.values.read + tallies.residual.read + tallies.residual.written;
    RecordProperty("bytes_a_parameter",
                   std::to_string(static_cast<double>(all) / static_cast<double>(world.size())));
  }
}

// Of a tile at an edge all coefficients, but only the values that there are; and a list that has
// room for more is ended.
TEST(DeviceTraffic, EdgesReadWhatIsThere) {
  const World world = padded_world();
  Tallies tallies;
  count(world, 10, 12, tallies);
  EXPECT_EQ(tallies.values.read, 4 * world.size());
  EXPECT_EQ(tallies.residual.read, 4 * world.coefficients());
  EXPECT_EQ(tallies.residual.written, 4 * world.coefficients());
  EXPECT_EQ(tallies.coded.written, world.tiles().size() * (2 + 60 + 80 + 4));
}

}  // namespace
}  // namespace thinwire
