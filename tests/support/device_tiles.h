// Tiles that do not overlap, and what is done with them, for the tests of device kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/device.h"
#include "thinwire/tile_kernels.h"

namespace thinwire::testing_support {

inline const Device kCard = Device::cuda(0);

// Tiles of matrices that lie one after another.
class World {
 public:
  // `tail` values follow the last row, in its last tile; then the matrix is one tile wide.
  World& add(std::size_t rows, std::size_t cols, std::size_t height, std::size_t width,
             std::size_t tail = 0) {
    for (std::size_t y = 0; y < rows + (tail > 0 ? 1 : 0); y += height) {
      for (std::size_t x = 0; x < cols; x += width) {
        Tile tile{.offset = size_ + y * cols + x,
                  .stride = cols,
                  .rows = std::min(height, rows - std::min(rows, y)),
                  .cols = std::min(width, cols - x),
                  .tail = tail,
                  .height = height,
                  .width = width,
                  .coefficients = coefficients_};
        coefficients_ += height * width;
        tiles_.push_back(tile);
      }
    }
    size_ += rows * cols + tail;
    return *this;
  }
  Tiles tiles() const { return std::span<const Tile>(tiles_); }
  std::size_t size() const { return size_; }
  std::size_t coefficients() const { return coefficients_; }

 private:
  std::vector<Tile> tiles_;
  std::size_t size_ = 0;
  std::size_t coefficients_ = 0;
};

// Whole tiles, edges to the right, below and in the corner, and a pool with a tail: all 64 x 64.
inline World padded_world() { return World().add(70, 130, 64, 64).add(3, 64, 64, 64, 29); }
// The divisor rule's sides, one of which is 64.
inline World divisor_world() {
  return World()
      .add(61, 33, 61, 33)
      .add(96, 26, 48, 26)
      .add(1, 7, 1, 7)
      .add(1, 1, 1, 1)
      .add(64, 64, 64, 64)
      .add(128, 32, 64, 32);
}

// What sites might have said of the tiles: `set` places of each, every third tile none.
struct SaidOfAll {
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint16_t> positions;
  std::vector<std::int32_t> weights;
  std::vector<float> values;

  kernels::Said votes() const { return {begin, positions, weights, {}}; }
  kernels::Said floats() const { return {begin, positions, {}, values}; }
};
inline SaidOfAll said_of(const World& world, std::size_t set, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  SaidOfAll said;
  for (std::size_t i = 0; i < world.tiles().size(); ++i) {
    const Tile& tile = world.tiles()[i];
    const std::size_t count = i % 3 == 2 ? 0 : std::min(set, tile.height * tile.width);
    for (const std::uint16_t p : some_positions(tile.height * tile.width, count, seed + i)) {
      said.positions.push_back(p);
      said.weights.push_back(static_cast<std::int32_t>(engine() % 8193) - 4096);
      said.values.push_back(normal(engine));
    }
    said.begin.push_back(static_cast<std::uint32_t>(said.positions.size()));
  }
  return said;
}

// Parameters, zeros of both signs among them.
inline std::vector<float> parameters(const World& world) {
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
  kernels::Lists of(Floats floats) const {
    return {.floats = floats, .first = 2 * k + 1, .stride = stride(k), .k = k};
  }

  std::vector<float> values;
  std::vector<float> residual;
  std::vector<float> lists;
  std::size_t k;
  kernels::Chosen chosen;
};

// Has that target of the host fused multiply-add, as AVX2 has? Then its fast transforms round as
// the device's do, and must have their bits; without, as with SSE4, each product is rounded once
// more.
inline bool fuses(const std::string& target) {
  return !target.starts_with("SS") && target != "EMU128" && target != "SCALAR";
}

}  // namespace thinwire::testing_support
