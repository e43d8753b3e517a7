#include "thinwire/layout.h"

#include <algorithm>
#include <limits>
#include <set>

#include "thinwire/error.h"
#include "thinwire/hash.h"

namespace thinwire {
namespace {

// Far above any real tensor, far below overflow of sums of sizes.
constexpr std::size_t kElementsMax = std::numeric_limits<std::size_t>::max() / 1024;

std::size_t element_count(const ParameterSpec& parameter) {
  std::size_t count = 1;
  for (std::size_t extent : parameter.shape) {
    if (extent != 0 && count > kElementsMax / extent) {
      throw UsageError("parameter '" + parameter.name + "' has too many values; check its shape");
    }
    count *= extent;
  }
  return count;
}

// The published rule: the largest divisor of n that is at most kTileSide.
std::size_t largest_divisor(std::size_t n) {
  for (std::size_t side = std::min(n, kTileSide); side > 1; --side) {
    if (n % side == 0) return side;
  }
  return 1;
}

bool is_vector(const ParameterSpec& parameter) { return parameter.shape.size() <= 1; }

Block matrix_block(const ParameterSpec& parameter, std::size_t size, Chunking chunking) {
  Block block;
  block.name = parameter.name;
  block.size = size;
  block.hidden = !parameter.table;
  block.table = parameter.table;
  const std::vector<std::size_t>& shape = parameter.shape;
  if (chunking == Chunking::padded) {
    block.rows = shape[0];
    block.cols = size / shape[0];
    block.tile_height = block.tile_width = kTileSide;
  } else {
    block.cols = shape.back();
    block.rows = size / block.cols;
    block.tile_height = largest_divisor(shape[shape.size() - 2]);
    block.tile_width = largest_divisor(block.cols);
  }
  return block;
}

// A vector on its own, as rows of one tile each.
Block vector_block(const ParameterSpec& parameter, std::size_t size) {
  Block block;
  block.name = parameter.name;
  block.size = size;
  block.cols = block.tile_width = largest_divisor(size);
  block.rows = size / block.cols;
  block.tile_height = 1;
  return block;
}

// All vectors of a unit seen as one matrix of kTileSide columns: a tile is 4096 consecutive values.
Block pool_block(int unit, std::size_t size) {
  Block block;
  block.name = "pool." + std::to_string(unit);
  block.size = size;
  block.cols = block.tile_height = block.tile_width = kTileSide;
  block.rows = (size + kTileSide - 1) / kTileSide;
  return block;
}

void check_names(const std::vector<ParameterSpec>& parameters) {
  std::set<std::string> seen;
  for (const ParameterSpec& parameter : parameters) {
    if (parameter.name.empty()) throw UsageError("a parameter has no name; give each one a name");
    if (parameter.name.starts_with("pool.")) {
      throw UsageError("a parameter is called '" + parameter.name +
                       "'; names that begin with 'pool.' are those of pooled vectors");
    }
    if (!seen.insert(parameter.name).second) {
      throw UsageError("two parameters are called '" + parameter.name + "'; names must differ");
    }
  }
}

// One more than the largest unit; every smaller number must occur.
int count_units(const std::vector<ParameterSpec>& parameters) {
  std::set<int> units;
  for (const ParameterSpec& parameter : parameters) units.insert(parameter.unit);
  int next = 0;
  for (int unit : units) {
    if (unit != next) {
      throw UsageError("no parameter belongs to unit " + std::to_string(next) +
                       "; number units 0, 1, ... without holes");
    }
    ++next;
  }
  return next;
}

std::uint64_t hash_of(const std::vector<ParameterSpec>& parameters, Chunking chunking) {
  std::uint64_t hash = static_cast<std::uint64_t>(chunking);
  for (const ParameterSpec& parameter : parameters) {
    hash = hash_fold(hash, hash64(parameter.name));
    hash = hash_fold(hash, parameter.shape.size());
    for (std::size_t extent : parameter.shape) hash = hash_fold(hash, extent);
    hash = hash_fold(hash, static_cast<std::uint64_t>(parameter.unit));
    hash = hash_fold(hash, (parameter.trainable ? 1 : 0) + (parameter.table ? 2 : 0));
  }
  return hash;
}

}  // namespace

Layout::Layout(std::vector<ParameterSpec> parameters, Chunking chunking)
    : parameters_(std::move(parameters)), chunking_(chunking), places_(parameters_.size()) {
  check_names(parameters_);
  const int count = count_units(parameters_);
  unit_sizes_.assign(count, 0);
  frozen_sizes_.assign(count, 0);
  for (int unit = 0; unit < count; ++unit) place_unit(unit);
  hash_ = hash_of(parameters_, chunking_);
}

void Layout::place_unit(int unit) {
  const auto put = [&](std::size_t index, std::vector<std::size_t>& sizes) {
    Place& place = places_[index];
    place = {unit, sizes[unit], element_count(parameters_[index]), parameters_[index].trainable};
    sizes[unit] += place.size;
    return place;
  };
  std::vector<std::size_t> vectors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterSpec& parameter = parameters_[i];
    if (parameter.unit != unit) continue;
    if (!parameter.trainable) {
      put(i, frozen_sizes_);
    } else if (is_vector(parameter)) {
      vectors.push_back(i);
    } else if (const Place place = put(i, unit_sizes_); place.size > 0) {
      Block block = matrix_block(parameter, place.size, chunking_);
      block.unit = unit;
      block.offset = place.offset;
      add_block(std::move(block));
    }
  }
  const std::size_t pool_begin = unit_sizes_[unit];
  for (std::size_t i : vectors) {
    const Place place = put(i, unit_sizes_);
    if (chunking_ == Chunking::divisor && place.size > 0) {
      Block block = vector_block(parameters_[i], place.size);
      block.unit = unit;
      block.offset = place.offset;
      add_block(std::move(block));
    }
  }
  const std::size_t pool_size = unit_sizes_[unit] - pool_begin;
  if (chunking_ == Chunking::padded && pool_size > 0) {
    Block block = pool_block(unit, pool_size);
    block.unit = unit;
    block.offset = pool_begin;
    add_block(std::move(block));
  }
}

void Layout::add_block(Block block) {
  const std::size_t row_floats = block.tile_height * block.cols;
  for (std::size_t row = 0; row < block.grid_rows(); ++row) {
    tile_rows_.push_back({blocks_.size(), row, block.offset + row * row_floats,
                          block.offset + std::min(block.size, (row + 1) * row_floats)});
  }
  blocks_.push_back(std::move(block));
}

Layout Layout::seen_as(const std::vector<ParameterSpec>& declared) const {
  TW_CHECK(declared.size() == parameters_.size());
  Layout seen = *this;
  seen.parameters_ = declared;
  const int count = count_units(declared);
  seen.unit_sizes_.assign(count, 0);
  seen.frozen_sizes_.assign(count, 0);
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const int unit = declared[i].unit;
    seen.places_[i].unit = unit;
    seen.unit_sizes_[unit] = unit_sizes_[places_[i].unit];
    seen.frozen_sizes_[unit] = frozen_sizes_[places_[i].unit];
  }
  return seen;
}

std::size_t Layout::index_of(std::string_view name) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return i;
  }
  throw Error("the model has no parameter '" + std::string(name) + "'");
}

std::size_t Layout::trainable_size() const {
  std::size_t sum = 0;
  for (std::size_t size : unit_sizes_) sum += size;
  return sum;
}

}  // namespace thinwire
