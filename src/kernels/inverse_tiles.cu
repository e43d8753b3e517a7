// What all tiles do with what was said of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/basis.h"
#include "src/kernels/device_tiles.h"
#include "src/kernels/inverse.cuh"
#include "src/kernels/owed.cuh"
#include "src/kernels/tile_twins.h"
#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

// ---- x along what was said

__device__ inline float direction(float sum) { return sum; }
__device__ inline float direction(std::int32_t sum) {
  return static_cast<float>((sum > 0) - (sum < 0));
}

// sign_step and scale_add of kernels.h.
__device__ inline float moved(float x, float z, const Along& how) {
  const float kept = __fmul_rn(how.keep, x);
  if (!how.sign) return __fadd_rn(kept, __fmul_rn(-how.rate, z));
  const float up = z > 0.0f ? how.rate : 0.0f;
  return __fadd_rn(kept, -(z < 0.0f ? -how.rate : up));
}

// Blocks on a multiprocessor, by the registers that they need without spilling, and loads that a
// thread has under way before its first store.
template <class T>
[[maybe_unused]] inline constexpr int kBlocks = 8;
template <>
[[maybe_unused]] inline constexpr int kBlocks<float> = 10;
template <class T>
inline constexpr int kAtOnce = 16;
template <>
inline constexpr int kAtOnce<float> = 8;

template <class T>
__global__ void __launch_bounds__(kTileThreads, kBlocks<T>)
    move_along(const Tile* tiles, SaidThere<T> said, DeviceSides sides, Along how,
               std::size_t origin, float* x) {
  const Tile& tile = tiles[blockIdx.x];
  const int rows = valid_rows(tile, static_cast<int>(threadIdx.x));
  T sums[kSide];
  inverse_column(tile, said, sides, how.basis, sums);
  float* at = x + (tile.offset - origin) + threadIdx.x;
  const std::size_t stride = tile.stride;
#pragma unroll
  for (int begin = 0; begin < kSide; begin += kAtOnce<T>, at += kAtOnce<T> * stride) {
    float old[kAtOnce<T>];
#pragma unroll
    for (int i = 0; i < kAtOnce<T>; ++i) old[i] = begin + i < rows ? at[i * stride] : 0.0f;
#pragma unroll
    for (int i = 0; i < kAtOnce<T>; ++i) {
      if (begin + i < rows) at[i * stride] = moved(old[i], direction(sums[begin + i]), how);
    }
  }
}

// ---- z, and the sum of its squares

// A sum of integers has no order.
__global__ void __launch_bounds__(kTileThreads, kBlocks<std::int32_t>)
    amplitudes(const Tile* tiles, SaidThere<std::int32_t> said, DeviceSides sides, Basis basis,
               std::size_t origin, float* z, unsigned long long* squares) {
  __shared__ unsigned long long of_warps[2];
  const Tile& tile = tiles[blockIdx.x];
  const int rows = valid_rows(tile, static_cast<int>(threadIdx.x));
  std::int32_t sums[kSide];
  inverse_column(tile, said, sides, basis, sums);
  float* to = z + (tile.offset - origin) + threadIdx.x;
  unsigned long long all = 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i, to += tile.stride) {
    if (i >= rows) continue;
    const std::int32_t rounded = (sums[i] + (1 << (kAmplitudeShift - 1))) >> kAmplitudeShift;
    *to = static_cast<float>(rounded);
    all += static_cast<unsigned long long>(static_cast<long long>(rounded) * rounded);
  }
  for (unsigned step = 16; step > 0; step /= 2) all += __shfl_down_sync(~0u, all, step);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = all;
  __syncthreads();
  if (threadIdx.x == 0) squares[blockIdx.x] = of_warps[0] + of_warps[1];
}

__global__ void __launch_bounds__(kTileThreads, 8)
    inverse_values(const Tile* tiles, SaidThere<float> said, DeviceSides sides, Basis basis,
                   std::size_t origin, float* z, double* squares) {
  __shared__ float tile[kTileFloats];
  __shared__ double rows[kSide];
  const Tile& where = tiles[blockIdx.x];
  {
    float sums[kSide];
    inverse_column(where, said, sides, basis, sums);
#pragma unroll
    for (int i = 0; i < kSide; ++i) tile[i * kPitch + static_cast<int>(threadIdx.x)] = sums[i];
  }
  __syncthreads();
  store_column(where, origin, tile, z);
  tile_squares(where, tile, rows, squares);
}

// ---- the host's side

// Said, for as long as this lives on the device.
template <class T>
class SaidCopy {
 public:
  SaidCopy(const Said& said, std::span<const T> values, Device device)
      : first_(said.begin.front()),
        begin_(device, said.begin),
        positions_(device, said.positions.subspan(first_, said.begin.back() - first_)),
        values_(device, values.subspan(first_, said.begin.back() - first_)) {}

  SaidThere<T> there() const { return {begin_.get(), first_, positions_.get(), values_.get()}; }

 private:
  std::uint32_t first_;
  device::Array<std::uint32_t> begin_;
  device::Array<std::uint16_t> positions_;
  device::Array<T> values_;
};

// Both passes on the host rely on these of what was said.
void check_weights(std::span<const std::int32_t> weights) {
  constexpr std::int32_t kOne = 1 << 12;
  TW_CHECK(std::all_of(weights.begin(), weights.end(),
                       [](std::int32_t w) { return -kOne <= w && w <= kOne; }));
}
void check_places(Tiles tiles, const Said& said) {
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (said.begin[i] == said.begin[i + 1]) continue;
    TW_CHECK(said.positions[said.begin[i + 1] - 1] < tiles[i].height * tiles[i].width);
  }
}

// Of all tiles, one after another.
template <class T>
double sum_in_order(const device::Array<T>& of_tiles) {
  std::vector<T> here(of_tiles.size());
  of_tiles.download(here);
  double sum = 0.0;
  for (const T of_tile : here) sum += static_cast<double>(of_tile);
  return sum;
}

Factors backward_factors() {
  const Side& whole = side(Basis::dct, kSideMax);
  TW_CHECK(whole.backward.size() == static_cast<std::size_t>(kFactors));
  Factors factors;
  std::copy(whole.backward.begin(), whole.backward.end(), factors.of);
  return factors;
}

void launch_owed(const Sizes& sizes, Device device, unsigned blocks, Basis basis,
                 const OwedTask& task) {
  auto kernel = owed_full<Basis::dct>;
  if (basis == Basis::hadamard) kernel = owed_full<Basis::hadamard>;
  if (basis == Basis::none) kernel = owed_full<Basis::none>;
  const device::Shape shape{blocks, kTileThreads};
  if (sizes.full) device::launch(device.index(), kernel, shape, backward_factors(), task);
  if (sizes.other) {
    const auto other = basis == Basis::none ? owed_other<false> : owed_other<true>;
    device::launch(device.index(), other, shape, device_sides(device, basis).rows, task);
  }
}

}  // namespace

namespace twins {

void step_along(Tiles tiles, const Said& said, const Along& how, std::size_t origin, Floats x) {
  if (tiles.empty()) return;
  const Device device = x.device();
  sizes_of(tiles, origin, x.size());
  check_places(tiles, said);
  check_weights(said.weights);
  const TilesThere there(tiles, device);
  const DeviceSides sides = device_sides(device, how.basis);
  const device::Shape shape{blocks_for(tiles), kTileThreads};
  if (said.values.empty()) {
    const SaidCopy<std::int32_t> copy(said, said.weights, device);
    device::launch(device.index(), move_along<std::int32_t>, shape, there.get(), copy.there(),
                   sides, how, origin, x.data());
  } else {
    const SaidCopy<float> copy(said, said.values, device);
    device::launch(device.index(), move_along<float>, shape, there.get(), copy.there(), sides, how,
                   origin, x.data());
  }
}

double inverse_said(Tiles tiles, const Said& said, Basis basis, std::size_t origin, Floats z) {
  if (tiles.empty()) return 0.0;
  const Device device = z.device();
  sizes_of(tiles, origin, z.size());
  check_places(tiles, said);
  check_weights(said.weights);
  const TilesThere there(tiles, device);
  const DeviceSides sides = device_sides(device, basis);
  const device::Shape shape{blocks_for(tiles), kTileThreads};
  if (said.values.empty()) {
    const SaidCopy<std::int32_t> copy(said, said.weights, device);
    const device::Array<unsigned long long> squares(device, tiles.size());
    device::launch(device.index(), amplitudes, shape, there.get(), copy.there(), sides, basis,
                   origin, z.data(), squares.get());
    return sum_in_order(squares);
  }
  const SaidCopy<float> copy(said, said.values, device);
  const device::Array<double> squares(device, tiles.size());
  device::launch(device.index(), inverse_values, shape, there.get(), copy.there(), sides, basis,
                 origin, z.data(), squares.get());
  return sum_in_order(squares);
}

double inverse_owed(Tiles tiles, ConstFloats residual, std::span<const Lists> lists, Basis basis,
                    std::size_t origin, Floats z) {
  if (tiles.empty()) return 0.0;
  const Device device = z.device();
  const Sizes sizes = sizes_of(tiles, origin, z.size());
  const TilesThere there(tiles, device);
  std::vector<ListsThere> lists_here;
  for (const Lists& one : lists) {
    lists_here.push_back({one.floats.data() + one.first, one.stride, one.k});
  }
  const device::Array<ListsThere> lists_there(device, lists_here);
  const device::Array<double> squares(device, tiles.size());
  const OwedTask task{.tiles = there.get(),
                      .residual = residual.data(),
                      .lists = lists_there.get(),
                      .lists_count = lists.size(),
                      .origin = origin,
                      .z = z.data(),
                      .squares = squares.get()};
  launch_owed(sizes, device, blocks_for(tiles), basis, task);
  return sum_in_order(squares);
}

}  // namespace twins
}  // namespace thinwire::kernels
