#include "src/core/checkpoint_parts.h"

#include <algorithm>

namespace thinwire {
namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Range range_of(const Layout& layout, int unit, PartOf part) {
  const std::vector<std::size_t> cuts = unit_cuts(layout, unit, part.ranks, part.whole_blocks);
  return {cuts[part.rank], cuts[part.rank + 1]};
}

// Whole rows of a parameter keep its shape; a cut between them does not.
std::vector<std::size_t> shape_of(std::vector<std::size_t> shape, std::size_t whole,
                                  std::size_t size) {
  if (size == whole) return shape;
  const std::size_t row = shape.empty() || shape[0] == 0 ? 0 : whole / shape[0];
  if (row == 0 || size % row != 0) return {size};
  shape[0] = size / row;
  return shape;
}

std::vector<PartTensor> tile_tensors(const Layout& layout, PartOf part, const StateSpec& spec) {
  const bool coefficients = spec.extent == StateExtent::coefficients;
  const std::vector<PartRow> rows = part_rows(layout, part);
  std::vector<PartTensor> tensors;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < rows.size();) {
    const TileRow& first = layout.tile_rows()[rows[i].row];
    const Block& block = layout.blocks()[first.block];
    const std::size_t of_tile = coefficients ? block.tile_coefficients() : spec.count;
    std::size_t count = 0;
    for (; i < rows.size() && layout.tile_rows()[rows[i].row].block == first.block; ++i) ++count;
    PartTensor tensor;
    tensor.name = state_prefix(spec) + block.name;
    tensor.shape = {count, block.grid_cols()};
    if (coefficients) {
      tensor.shape.insert(tensor.shape.end(), {block.tile_height, block.tile_width});
    } else {
      tensor.shape.push_back(spec.count);
    }
    tensor.offset = offset;
    tensor.size = count * block.grid_cols() * of_tile;
    tensor.begin = first.row * block.grid_cols() * of_tile;
    offset += tensor.size;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

std::string state_prefix(const StateSpec& spec) { return "states/" + spec.name + "/"; }

std::vector<PartTensor> element_tensors(const Layout& layout, PartOf part,
                                        const std::string& prefix) {
  std::vector<PartTensor> tensors;
  std::size_t floats = 0;
  for (int unit = 0; unit < layout.units(); ++unit) {
    const Range range = range_of(layout, unit, part);
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      const Place& place = layout.place(i);
      if (place.unit != unit || !place.trainable) continue;
      const std::size_t from = std::max(range.begin, place.offset);
      const std::size_t to = std::min(range.end, place.offset + place.size);
      // One without values has a place in the file all the same.
      if (from >= to && (place.size > 0 || part.rank > 0)) continue;
      PartTensor tensor;
      tensor.name = prefix + layout.parameters()[i].name;
      tensor.size = from < to ? to - from : 0;
      tensor.shape = shape_of(layout.parameters()[i].shape, place.size, tensor.size);
      tensor.offset = tensor.size > 0 ? floats + from - range.begin : 0;
      tensor.begin = tensor.size > 0 ? from - place.offset : 0;
      tensors.push_back(std::move(tensor));
    }
    floats += range.end - range.begin;
  }
  return tensors;
}

std::vector<PartTensor> state_tensors(const Layout& layout, PartOf part, const StateSpec& spec) {
  if (spec.extent == StateExtent::elements)
    return element_tensors(layout, part, state_prefix(spec));
  if (spec.extent != StateExtent::whole) return tile_tensors(layout, part, spec);
  if (part.rank > 0) return {};  // the same on every rank
  PartTensor tensor;
  tensor.name = "states/" + spec.name;
  tensor.shape = {spec.count};
  tensor.size = spec.count;
  return {tensor};
}

// In the order of the shard's tiles.
std::vector<PartRow> part_rows(const Layout& layout, PartOf part) {
  std::vector<PartRow> rows;
  std::size_t floats = 0;
  std::size_t tiles = 0;
  for (int unit = 0; unit < layout.units(); ++unit) {
    const Range range = range_of(layout, unit, part);
    for (std::size_t i = 0; i < layout.tile_rows().size(); ++i) {
      const TileRow& row = layout.tile_rows()[i];
      const Block& block = layout.blocks()[row.block];
      if (block.unit != unit || row.begin < range.begin || row.end > range.end) continue;
      rows.push_back({i, tiles, block.grid_cols(), row.end - row.begin,
                      floats + row.begin - range.begin, block.tile_coefficients()});
      tiles += block.grid_cols();
    }
    floats += range.end - range.begin;
  }
  return rows;
}

std::size_t part_floats(const Layout& layout, PartOf part) {
  std::size_t floats = 0;
  for (int unit = 0; unit < layout.units(); ++unit) {
    const Range range = range_of(layout, unit, part);
    floats += range.end - range.begin;
  }
  return floats;
}

}  // namespace thinwire
