#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <vector>

#include "src/device/runtime.h"
#include "src/kernels/basis.h"
#include "src/kernels/device_tiles.h"
#include "src/kernels/extent.h"
#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

constexpr std::size_t kDevicesMax = 64;
constexpr std::size_t kBases = 3;

DeviceSides upload(Device device, Basis basis) {
  std::vector<std::uint32_t> words;
  for (std::size_t n = 1; n <= kSideMax; ++n) {
    for (const float value : side(basis, n).rows) {
      words.push_back(std::bit_cast<std::uint32_t>(value));
    }
  }
  const std::size_t values = words.size();
  for (std::size_t n = 1; n <= kSideMax; ++n) {
    for (const std::int32_t value : side(basis, n).votes) {
      words.push_back(static_cast<std::uint32_t>(value));
    }
  }
  const std::size_t bytes = words.size() * sizeof(std::uint32_t);
  void* there = device::allocate(device.index(), bytes);
  device::copy(device.index(), there, words.data(), bytes, true);
  const auto* first = static_cast<const std::uint32_t*>(there);
  return {reinterpret_cast<const float*>(first),
          reinterpret_cast<const std::int32_t*>(first + values)};
}

}  // namespace

// Never given back: at the end of the process there may be no driver left to give it to.
DeviceSides device_sides(Device device, Basis basis) {
  static std::mutex mutex;
  static std::array<std::array<DeviceSides, kBases>, kDevicesMax> all;
  const auto index = static_cast<std::size_t>(device.index());
  TW_CHECK(index < kDevicesMax);
  const std::lock_guard lock(mutex);
  DeviceSides& sides = all[index][static_cast<std::size_t>(basis)];
  if (sides.rows == nullptr) sides = upload(device, basis);
  return sides;
}

TilesThere::TilesThere(Tiles tiles, Device device) : there_(tiles.on_device) {
  if (there_ != nullptr) return;
  copy_ = device::Array<Tile>(device, std::span<const Tile>(tiles));
  there_ = copy_.get();
}

unsigned blocks_for(Tiles tiles) {
  TW_CHECK(tiles.size() <= std::numeric_limits<std::int32_t>::max());
  return static_cast<unsigned>(tiles.size());
}

Sizes sizes_of(Tiles tiles, std::size_t origin, std::size_t size) {
  Sizes sizes;
  for (Tile tile : tiles) {
    const bool full = tile.height == kSideMax && tile.width == kSideMax;
    sizes.full = sizes.full || full;
    sizes.other = sizes.other || !full;
    TW_CHECK(origin <= tile.offset);
    tile.offset -= origin;
    check_extent(tile, size);
  }
  return sizes;
}

}  // namespace thinwire::kernels
