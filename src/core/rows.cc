#include "src/core/rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "thinwire/device.h"
#include "thinwire/hash.h"
#include "thinwire/range_kernels.h"

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

// What of a state belongs to the row whose parameters are `range`.
ShardRange part_of(const Shard& shard, const StateSpec& spec, std::size_t row, ShardRange range) {
  if (spec.extent == StateExtent::elements) return range;
  if (spec.extent == StateExtent::whole) return {0, spec.count};
  const RowTiles at = tiles_of(shard, row);
  if (spec.extent == StateExtent::per_tile) return {at.first * spec.count, at.count * spec.count};
  const Tile& tile = shard.tiles()[at.first];
  return {tile.coefficients, at.count * tile.height * tile.width};
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

std::string first_change(const Shard& shard, std::size_t row, ConstFloats there, ByteView after) {
  const Near here(there, Device());
  const ConstFloats before = here;
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
    const ShardRange part = part_of(shard, spec, row, range);
    parts.push_back(shard.state(spec.name).subspan(part.offset, part.size));
  }
  return parts;
}

std::vector<std::uint64_t> row_hashes(const Shard& shard) {
  std::vector<std::uint64_t> hashes(shard.layout().tile_rows().size(), 0);
  std::vector<std::size_t> rows;  // that lie here
  std::vector<ShardRange> ranges;
  for (std::size_t row = 0; row < hashes.size(); ++row) {
    const ShardRange range = shard.range(row);
    if (range.size == 0) continue;
    rows.push_back(row);
    ranges.push_back(range);
  }
  std::vector<std::uint64_t> of_rows(rows.size());
  kernels::hash(shard.params(), ranges, of_rows);
  for (std::size_t i = 0; i < rows.size(); ++i) hashes[rows[i]] = of_rows[i];
  for (const StateSpec& spec : shard.states()) {
    if (spec.kind != StateKind::replicated) continue;
    std::vector<ShardRange> parts;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      parts.push_back(part_of(shard, spec, rows[i], ranges[i]));
    }
    kernels::hash(shard.state(spec.name), parts, of_rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      hashes[rows[i]] = hash_fold(hashes[rows[i]], of_rows[i]);
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
      const Near here(part, Device());
      const ByteView view = std::as_bytes(ConstFloats(here));
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
      copy_bytes(values.first(part.size_bytes()), part);
      values = values.subspan(part.size_bytes());
    }
  }
  return first;
}

}  // namespace thinwire
