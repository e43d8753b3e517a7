#include "thinwire/shard.h"

#include <algorithm>
#include <utility>

#include "src/device/array.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"

namespace thinwire {

namespace {

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// What of a unit is not cut, in order.
std::vector<Span> uncut(const Layout& layout, int unit, bool whole_blocks) {
  std::vector<Span> spans;
  if (whole_blocks) {
    for (const Block& block : layout.blocks()) {
      if (block.unit == unit) spans.push_back({block.offset, block.offset + block.size});
    }
  } else {
    for (const TileRow& row : layout.tile_rows()) {
      if (layout.blocks()[row.block].unit == unit) spans.push_back({row.begin, row.end});
    }
  }
  return spans;
}

}  // namespace

// Each rank's share ends at the border nearest to its even part.
std::vector<std::size_t> unit_cuts(const Layout& layout, int unit, int ranks, bool whole_blocks) {
  const std::size_t size = layout.unit_size(unit);
  std::vector<std::size_t> cuts{0};
  for (const auto [begin, end] : uncut(layout, unit, whole_blocks)) {
    while (static_cast<int>(cuts.size()) < ranks && end * ranks >= size * cuts.size()) {
      const std::size_t even = size * cuts.size();  // all in floats times ranks
      const bool end_is_nearer = end * ranks - even <= even - std::min(even, begin * ranks);
      cuts.push_back(end_is_nearer ? end : std::max(begin, cuts.back()));
    }
  }
  cuts.resize(ranks + 1, size);
  cuts.back() = size;
  return cuts;
}

namespace {

std::size_t extent_of(const StateSpec& spec, const Shard& shard) {
  switch (spec.extent) {
    case StateExtent::elements:
      return shard.params().size();
    case StateExtent::coefficients:
      return shard.coefficients();
    case StateExtent::per_tile:
      return shard.tiles().size() * spec.count;
    case StateExtent::whole:
      return spec.count;
  }
  return 0;
}

}  // namespace

Shard::Shard(const Layout& layout, int rank, int ranks, std::span<const StateSpec> states,
             bool whole_blocks, Device device)
    : layout_(&layout),
      rank_(rank),
      ranks_(ranks),
      whole_blocks_(whole_blocks),
      specs_(states.begin(), states.end()) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw UsageError("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     " does not exist; ranks count from 0");
  }
  std::size_t floats = 0;
  for (int unit = 0; unit < layout.units(); ++unit) {
    cuts_.push_back(unit_cuts(layout, unit, ranks, whole_blocks));
    unit_offsets_.push_back(floats);
    const std::size_t begin = cuts_[unit][rank];
    const std::size_t end = cuts_[unit][rank + 1];
    for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
      const Block& block = layout.blocks()[i];
      const std::size_t from = std::max(begin, block.offset);
      const std::size_t to = std::min(end, block.offset + block.size);
      if (block.unit == unit && from < to) add_piece(block, i, from, to);
    }
    floats += end - begin;
  }
  params_ = FloatBuffer(floats, device);
  grad_ = FloatBuffer(floats, device);
  for (const StateSpec& spec : specs_) {
    const Device where = spec.extent == StateExtent::whole ? Device() : device;
    if (!states_.emplace(spec.name, FloatBuffer(extent_of(spec, *this), where)).second) {
      throw UsageError("state '" + spec.name + "' is declared twice; names must differ");
    }
  }
  if (!device.is_host()) {
    const auto there = std::make_shared<device::Array<Tile>>(device, std::span<const Tile>(tiles_));
    tiles_on_device_ = {there, there->get()};
  }
}

Shard Shard::copy_on(Device device) const {
  Shard copy(*layout_, rank_, ranks_, specs_, whole_blocks_, device);
  copy.take_values(*this);
  return copy;
}

void Shard::take_values(const Shard& other) {
  copy(other.params_, params_);
  copy(other.grad_, grad_);
  for (auto& [name, values] : states_) copy(other.state(name), values);
}

// Floats [begin, end) of the unit are whole tile rows of `block`.
void Shard::add_piece(const Block& block, std::size_t index, std::size_t begin, std::size_t end) {
  Piece piece;
  piece.block = index;
  piece.first_row = (begin - block.offset) / block.cols;
  piece.rows = (end - begin + block.cols - 1) / block.cols;
  piece.cols = block.cols;
  piece.offset = unit_offsets_[block.unit] + begin - cuts_[block.unit][rank_];
  piece.size = end - begin;
  piece.first_tile = tiles_.size();
  const std::size_t full_rows = piece.size / block.cols;
  for (std::size_t y = 0; y < piece.rows; y += block.tile_height) {
    for (std::size_t x = 0; x < block.cols; x += block.tile_width) {
      Tile tile;
      tile.offset = piece.offset + y * block.cols + x;
      tile.stride = block.cols;
      tile.rows = std::min(block.tile_height, full_rows - std::min(full_rows, y));
      tile.cols = std::min(block.tile_width, block.cols - x);
      // Only a pool's last row can be partly filled, and a pool is one tile wide.
      tile.tail = y + block.tile_height > full_rows ? piece.size % block.cols : 0;
      tile.height = block.tile_height;
      tile.width = block.tile_width;
      tile.coefficients = coefficients_;
      coefficients_ += tile.height * tile.width;
      tiles_.push_back(tile);
    }
  }
  piece.tiles = tiles_.size() - piece.first_tile;
  pieces_.push_back(piece);
}

Floats Shard::state(std::string_view name) {
  const auto found = states_.find(name);
  TW_CHECK(found != states_.end());
  return found->second;
}

ConstFloats Shard::state(std::string_view name) const {
  return const_cast<Shard*>(this)->state(name);
}

ShardRange Shard::range(std::size_t tile_row) const {
  const TileRow& row = layout_->tile_rows().at(tile_row);
  const int unit = layout_->blocks()[row.block].unit;
  const std::size_t begin = cuts_[unit][rank_];
  if (row.begin < begin || row.end > cuts_[unit][rank_ + 1]) return {};
  return {unit_offsets_[unit] + row.begin - begin, row.end - row.begin};
}

}  // namespace thinwire
