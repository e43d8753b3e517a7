// The twins of coarse.cc: what the kernels of coarse.cuh say goes to the host and is put into
// words.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/coarse.cuh"
#include "src/kernels/coarse_twins.h"
#include "src/kernels/device_tiles.h"
#include "src/kernels/extent.h"
#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

// What waits on the device at a time, in either direction.
constexpr std::size_t kWaitingBytes = std::size_t{8} << 20;

// Of one tile, as the kernels have written them.
class Planes {
 public:
  Planes(const std::vector<std::uint32_t>& words, std::size_t tile, unsigned bits)
      : words_(words.data() + tile * kGroups * bits), bits_(bits) {}
  std::uint32_t code(std::size_t position) const {
    const std::uint32_t* const group = words_ + position / kWarp * bits_;
    std::uint32_t code = 0;
    for (unsigned bit = 0; bit < bits_; ++bit) {
      code |= (group[bit] >> position % kWarp & 1u) << bit;
    }
    return code;
  }

 private:
  const std::uint32_t* words_;
  unsigned bits_;
};

// visit(position) for every value of the tile, ascending.
template <class Visit>
void for_each_position(const Tile& tile, const Visit& visit) {
  for (std::size_t row = 0; row < used_rows(tile); ++row) {
    const std::size_t cols = row < tile.rows ? tile.cols : tile.tail;
    for (std::size_t col = 0; col < cols; ++col) visit(row * tile.width + col);
  }
}

void append(const Tile& tile, Coarse coarse, float scale, const Planes& planes, Words& words) {
  const std::size_t values = tile.rows * tile.cols + tile.tail;
  const bool speaks = values > 0 && std::isfinite(scale);
  words.counts.push_back(static_cast<std::uint16_t>(speaks ? values : 0));
  if (!speaks) return;
  if (coarse != Coarse::plain) words.scales.push_back(scale);
  for_each_position(tile, [&](std::size_t position) {
    words.positions.push_back(static_cast<std::uint16_t>(position));
    words.codes.push_back(planes.code(position));
  });
}

void append_signs(const Tile& tile, const Planes& planes, Words& words) {
  const std::size_t before = words.positions.size();
  for_each_position(tile, [&](std::size_t position) {
    const std::uint32_t code = planes.code(position);
    if ((code & 1u) == 0) return;
    words.positions.push_back(static_cast<std::uint16_t>(position));
    words.codes.push_back(code >> 1);
  });
  words.counts.push_back(static_cast<std::uint16_t>(words.positions.size() - before));
}

void check_tiles(Tiles tiles, std::size_t size) {
  for (const Tile& tile : tiles) {
    TW_CHECK(tile.height * tile.width <= static_cast<std::size_t>(kTileValues));
    check_extent(tile, size);
  }
}

// work(some of the tiles, one after another)
template <class Work>
void in_batches(Tiles tiles, std::size_t bytes_a_tile, const Work& work) {
  const std::size_t most = std::max<std::size_t>(1, kWaitingBytes / bytes_a_tile);
  for (std::size_t first = 0; first < tiles.size(); first += most) {
    work(tiles.some(first, std::min(most, tiles.size() - first)));
  }
}

template <class T>
std::vector<T> fetched(const device::Array<T>& there) {
  std::vector<T> here(there.size());
  there.download(here);
  return here;
}

// Tiles [first, end) with the picks [first_pick, end_pick).
struct Batch {
  std::size_t first = 0;
  std::size_t end = 0;
  std::size_t first_pick = 0;
  std::size_t end_pick = 0;
  std::vector<std::uint32_t> begin;  // of each tile, after first_pick
  std::vector<float> scales;
};

// The tiles that follow a batch, and the number of their first scale.
Batch next_batch(const Batch& last, const WordsView& words, std::size_t& spoken) {
  constexpr std::size_t kMost =
      kWaitingBytes / (sizeof(std::uint32_t) + sizeof(std::uint16_t)) - kTileValues;
  Batch batch{last.end, last.end, last.end_pick, last.end_pick, {0}, {}};
  while (batch.end < words.counts.size() && batch.begin.back() < kMost &&
         batch.scales.size() < kMost) {
    const std::uint16_t count = words.counts[batch.end++];
    batch.end_pick += count;
    batch.begin.push_back(static_cast<std::uint32_t>(batch.end_pick - batch.first_pick));
    const bool scaled = count > 0 && !words.scales.empty();
    batch.scales.push_back(scaled ? words.scales[spoken++] : 1.0f);
  }
  return batch;
}

void add_batch(Tiles tiles, Coarse coarse, const Batch& batch, const WordsView& words,
               Floats into) {
  const Device device = into.device();
  const std::size_t picks = batch.end_pick - batch.first_pick;
  if (picks == 0) return;
  const TilesThere there(tiles, device);
  const device::Array<std::uint32_t> begin(device, batch.begin);
  const device::Array<float> scales(device, batch.scales);
  const device::Array<std::uint16_t> positions(device,
                                               words.positions.subspan(batch.first_pick, picks));
  const device::Array<std::uint32_t> codes(device, words.codes.subspan(batch.first_pick, picks));
  device::launch(device.index(), add_coarse_kernel, {blocks_for(tiles), kCoarseThreads},
                 there.get(), coarse, begin.get(), scales.get(), positions.get(), codes.get(),
                 into.data());
}

}  // namespace

namespace twins {

void say_coarse(Tiles tiles, Coarse coarse, Floats values, Words& words) {
  check_tiles(tiles, values.size());
  const Device device = values.device();
  const auto bits = static_cast<unsigned>(code_bits(coarse));
  in_batches(tiles, sizeof(float) * (kGroups * bits + 1), [&](Tiles some) {
    const TilesThere there(some, device);
    const device::Array<std::uint32_t> planes(device, some.size() * kGroups * bits);
    const device::Array<float> scales(device, some.size());
    device::launch(device.index(), say_coarse_kernel, {blocks_for(some), kCoarseThreads},
                   there.get(), coarse, bits, values.data(), planes.get(), scales.get());
    const std::vector<std::uint32_t> said = fetched(planes);
    const std::vector<float> of_tiles = fetched(scales);
    for (std::size_t i = 0; i < some.size(); ++i) {
      append(some[i], coarse, of_tiles[i], Planes(said, i, bits), words);
    }
  });
}

void say_signs(Tiles tiles, ConstFloats values, Words& words) {
  check_tiles(tiles, values.size());
  const Device device = values.device();
  in_batches(tiles, sizeof(std::uint32_t) * kGroups * 2, [&](Tiles some) {
    const TilesThere there(some, device);
    const device::Array<std::uint32_t> planes(device, some.size() * kGroups * 2);
    device::launch(device.index(), say_signs_kernel, {blocks_for(some), kCoarseThreads},
                   there.get(), values.data(), planes.get());
    const std::vector<std::uint32_t> said = fetched(planes);
    for (std::size_t i = 0; i < some.size(); ++i) {
      append_signs(some[i], Planes(said, i, 2), words);
    }
  });
}

void add_coarse(Tiles tiles, Coarse coarse, const WordsView& words, Floats into) {
  check_tiles(tiles, into.size());
  std::size_t spoken = 0;
  Batch batch;
  while (batch.end < tiles.size()) {
    batch = next_batch(batch, words, spoken);
    add_batch(tiles.some(batch.first, batch.end - batch.first), coarse, batch, words, into);
  }
}

}  // namespace twins
}  // namespace thinwire::kernels
