// A site's own side of all tiles: what it says, takes back and forgets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/basis.h"
#include "src/kernels/device_tiles.h"
#include "src/kernels/extract.cuh"
#include "src/kernels/tile_twins.h"
#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

// What is chosen of so many tiles at a time waits on the device, k places a tile.
constexpr std::size_t kWaitingBytes = std::size_t{8} << 20;

Factors forward_factors() {
  const Side& whole = side(Basis::dct, kSideMax);
  TW_CHECK(whole.forward.size() == static_cast<std::size_t>(kFactors));
  Factors factors;
  std::copy(whole.forward.begin(), whole.forward.end(), factors.of);
  return factors;
}

using Task = ExtractTask<PlainPointer>;

void launch_full(Device device, unsigned blocks, Basis basis, const Task& task) {
  auto kernel = extract_full<Basis::dct, PlainPointer>;
  if (basis == Basis::hadamard) kernel = extract_full<Basis::hadamard, PlainPointer>;
  if (basis == Basis::none) kernel = extract_full<Basis::none, PlainPointer>;
  device::launch(device.index(), kernel, {blocks, kTileThreads}, forward_factors(), task);
}

void launch_other(Device device, unsigned blocks, Basis basis, const Task& task) {
  const auto kernel = extract_other<PlainPointer>;
  device::launch(device.index(), kernel, {blocks, kTileThreads}, device_sides(device, basis).rows,
                 basis, task);
}

// What is chosen of some tiles, in one piece on its way to the host: k values a tile, then k places
// a tile, then how many of them there are.
struct Waiting {
  std::size_t tiles;
  std::size_t k;

  std::size_t positions() const { return tiles * k * sizeof(float); }
  std::size_t counts() const { return positions() + tiles * k * sizeof(std::uint16_t); }
  std::size_t bytes() const { return counts() + tiles * sizeof(std::uint16_t); }
};

template <class T>
void append(const std::byte* from, std::size_t count, std::vector<T>& to) {
  if (count == 0) return;
  const std::size_t before = to.size();
  to.resize(before + count);
  std::memcpy(to.data() + before, from, count * sizeof(T));
}

// On the device every tile has k places, here none but those it needs.
void append(const Waiting& waiting, const std::byte* from, Chosen& chosen) {
  const std::size_t first = chosen.counts.size();
  append(from + waiting.counts(), waiting.tiles, chosen.counts);
  for (std::size_t i = 0; i < waiting.tiles; ++i) {
    const std::size_t count = chosen.counts[first + i];
    const std::byte* values = from + i * waiting.k * sizeof(float);
    const std::byte* positions = from + waiting.positions() + i * waiting.k * sizeof(std::uint16_t);
    append(positions, count, chosen.positions);
    append(values, count, chosen.values);
  }
}

void extract_some(Tiles tiles, const Sizes& sizes, Basis basis, Task task, Device device,
                  Chosen& chosen) {
  const unsigned blocks = blocks_for(tiles);
  const TilesThere there(tiles, device);
  const Waiting waiting{tiles.size(), task.k};
  const device::Array<std::byte> memory(device, waiting.bytes());
  task.tiles = there.get();
  task.chosen = reinterpret_cast<float*>(memory.get());
  task.positions = reinterpret_cast<std::uint16_t*>(memory.get() + waiting.positions());
  task.counts = reinterpret_cast<std::uint16_t*>(memory.get() + waiting.counts());
  if (sizes.full) launch_full(device, blocks, basis, task);
  if (sizes.other) launch_other(device, blocks, basis, task);
  std::vector<std::byte> here(waiting.bytes());
  memory.download(here);
  append(waiting, here.data(), chosen);
}

// A block a tile, a thread an entry.
__global__ void __launch_bounds__(kTileThreads)
    add_entries(const Tile* tiles, const float* lists, std::size_t stride, std::size_t k,
                const std::uint16_t* counts, float* residual) {
  const Tile& tile = tiles[blockIdx.x];
  const float* list = lists + blockIdx.x * stride;
  const std::size_t count = counts[blockIdx.x] < k ? counts[blockIdx.x] : k;
  const auto coefficients = static_cast<float>(tile.height * tile.width);
  for (std::size_t i = threadIdx.x; i < count; i += kTileThreads) {
    if (!(list[i] >= 0.0f && list[i] < coefficients)) continue;
    float& owed = residual[tile.coefficients + static_cast<std::size_t>(list[i])];
    owed = __fadd_rn(owed, list[k + i]);
  }
}

__global__ void __launch_bounds__(256)
    empty_lists(std::size_t tiles, float* lists, std::size_t stride, std::size_t k) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = first; i < tiles; i += step) lists[i * stride + k] = 0.0f;
}

}  // namespace

namespace twins {

void extract(Tiles tiles, ConstFloats values, std::size_t origin, const Extract& how,
             Floats residual, const Lists& taken, Chosen& chosen) {
  const Device device = residual.device();
  const Sizes sizes = sizes_of(tiles, origin, values.size());
  const auto k = static_cast<std::size_t>(how.k);
  const std::size_t most =
      std::max<std::size_t>(1, kWaitingBytes / (k * (sizeof(float) + sizeof(std::uint16_t))));
  Task task{};
  task.values = values.data();
  task.origin = origin;
  task.residual = residual.data();
  task.decay = how.decay;
  task.scale = how.scale;
  task.subtract = how.subtract;
  task.k = static_cast<unsigned>(k);
  task.lists_stride = taken.stride;
  task.lists_k = taken.k;
  for (std::size_t first = 0; first < tiles.size(); first += most) {
    task.lists = taken.floats.data() + taken.first + first * taken.stride;
    extract_some(tiles.some(first, std::min(most, tiles.size() - first)), sizes, how.basis, task,
                 device, chosen);
  }
}

void give_back(Tiles tiles, const Lists& lists, std::span<const std::uint16_t> counts,
               Floats residual) {
  if (tiles.empty()) return;
  const Device device = residual.device();
  const TilesThere there(tiles, device);
  const device::Array<std::uint16_t> counts_there(device, counts);
  device::launch(device.index(), add_entries, {blocks_for(tiles), kTileThreads}, there.get(),
                 lists.floats.data() + lists.first, lists.stride, lists.k, counts_there.get(),
                 residual.data());
}

void clear(Tiles tiles, const Lists& lists) {
  if (tiles.empty()) return;
  device::launch(lists.floats.device().index(), empty_lists, device::shape_for(tiles.size()),
                 tiles.size(), lists.floats.data() + lists.first, lists.stride, lists.k);
}

}  // namespace twins
}  // namespace thinwire::kernels
