#include "src/core/rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "thinwire/hash.h"

namespace thinwire {
namespace {

struct RowTiles {
  std::size_t first = 0;
  std::size_t count = 0;
};

RowTiles tiles_of(const Shard& shard, std::size_t row) {
  const TileRow& at = shard.layout().tile_rows()[row];
  const Block& block = shard.layout().blocks()[at.block];
  for (const Piece& piece : shard.pieces()) {
    const std::size_t first = at.row * block.tile_height;
    if (piece.block != at.block || first < piece.first_row) continue;
    const std::size_t before = (first - piece.first_row) / block.tile_height;
    return {piece.first_tile + before * block.grid_cols(), block.grid_cols()};
  }
  TW_CHECK(false);
  return {};
}

Floats part_of(const StateSpec& spec, Floats state, const ShardRange& range,
               std::span<const Tile> tiles, const RowTiles& at) {
  const Tile& tile = tiles[at.first];
  switch (spec.extent) {
    case StateExtent::elements:
      return state.subspan(range.offset, range.size);
    case StateExtent::coefficients:
      return state.subspan(tile.coefficients, at.count * tile.height * tile.width);
    case StateExtent::per_tile:
      return state.subspan(at.first * spec.count, at.count * spec.count);
    case StateExtent::whole:
      break;
  }
  return state;
}

std::size_t bytes_of(const std::vector<Floats>& parts) {
  std::size_t bytes = 0;
  for (const Floats part : parts) bytes += part.size_bytes();
  return bytes;
}

// Of float `offset` of the row: the parameter it belongs to and its index there.
std::string name_of(const Shard& shard, std::size_t row, std::size_t offset) {
  const Layout& layout = shard.layout();
  const TileRow& at = layout.tile_rows()[row];
  const int unit = layout.blocks()[at.block].unit;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Place& place = layout.place(i);
    const std::size_t in_unit = at.begin + offset;
    if (!place.trainable || place.unit != unit) continue;
    if (in_unit < place.offset || in_unit >= place.offset + place.size) continue;
    return layout.parameters()[i].name + " [" + std::to_string(in_unit - place.offset) + "]";
  }
  return layout.blocks()[at.block].name;
}

std::string first_change(const Shard& shard, std::size_t row, ConstFloats before, ByteView after) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (std::memcmp(&before[i], after.data() + i * sizeof(float), sizeof(float)) != 0)
      return name_of(shard, row, i);
  }
  return {};
}

}  // namespace

std::vector<Floats> row_parts(Shard& shard, std::size_t row) {
  const ShardRange range = shard.range(row);
  if (range.size == 0) return {};
  std::vector<Floats> parts{shard.params().subspan(range.offset, range.size)};
  for (const StateSpec& spec : shard.states()) {
    if (spec.kind != StateKind::replicated) continue;
    parts.push_back(
        part_of(spec, shard.state(spec.name), range, shard.tiles(), tiles_of(shard, row)));
  }
  return parts;
}

std::vector<std::uint64_t> row_hashes(const Shard& shard) {
  std::vector<std::uint64_t> hashes(shard.layout().tile_rows().size(), 0);
  for (std::size_t row = 0; row < hashes.size(); ++row) {
    const std::vector<Floats> parts = row_parts(const_cast<Shard&>(shard), row);  // read alone
    if (parts.empty()) continue;
    hashes[row] = hash64(ConstFloats(parts[0]));
    for (std::size_t i = 1; i < parts.size(); ++i) {
      hashes[row] = hash_fold(hashes[row], hash64(ConstFloats(parts[i])));
    }
  }
  return hashes;
}

// For each row its number, 8 bytes little-endian, and its floats.
Bytes pack_rows(const Shard& shard, std::span<const std::size_t> rows) {
  Bytes bytes;
  for (const std::size_t row : rows) {
    for (int i = 0; i < 8; ++i)
      bytes.push_back(static_cast<std::byte>(std::uint64_t{row} >> (8 * i)));
    for (const Floats part : row_parts(const_cast<Shard&>(shard), row)) {
      const ByteView view = std::as_bytes(part);
      bytes.insert(bytes.end(), view.begin(), view.end());
    }
  }
  return bytes;
}

Result<std::string> unpack_rows(ByteView bytes, Shard& shard) {
  using Unpacked = Result<std::string>;
  std::vector<std::pair<std::size_t, ByteView>> rows;
  while (!bytes.empty()) {
    if (bytes.size() < 8) return Unpacked::refuse("rows of a replica are cut short");
    std::uint64_t row = 0;
    for (int i = 0; i < 8; ++i) row |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    bytes = bytes.subspan(8);
    if (row >= shard.layout().tile_rows().size() || shard.range(row).size == 0)
      return Unpacked::refuse("rows of a replica are of another shard");
    const std::size_t size = bytes_of(row_parts(shard, row));
    if (bytes.size() < size) return Unpacked::refuse("rows of a replica are cut short");
    rows.emplace_back(row, bytes.first(size));
    bytes = bytes.subspan(size);
  }
  std::string first;
  for (auto& [row, values] : rows) {
    const std::vector<Floats> parts = row_parts(shard, row);
    if (first.empty()) first = first_change(shard, row, parts[0], values);
    for (const Floats part : parts) {
      if (!part.empty()) std::memcpy(part.data(), values.data(), part.size_bytes());
      values = values.subspan(part.size_bytes());
    }
  }
  return first;
}

}  // namespace thinwire
