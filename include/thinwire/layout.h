// Where every parameter lies: units, blocks, tiles. A Layout is made once from a model's parameter
// list and is equal on all ranks and sites; its hash travels with every frame.
//
// A unit (FSDP's wrapping unit) is one flat float buffer: first its trainable matrices in the given
// order, row-major; then the pool, all its trainable 0-D and 1-D parameters in the given order;
// frozen parameters lie apart. Tiles (the atom of transform, compression and sharding) cut blocks:
// a block is one matrix (rows = shape[0], cols = product of the rest) or the pool seen as a matrix
// of 64 columns.
//
// Immutable after construction, therefore safe to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire {

inline constexpr std::size_t kTileSide = 64;

// One parameter as a model declares it. shape {} is a scalar; a zero extent is allowed (no values).
struct ParameterSpec {
  std::string name;
  std::vector<std::size_t> shape;
  int unit = 0;           // units are numbered 0, 1, ... without holes
  bool trainable = true;  // frozen parameters get no gradient and are never sent
  bool table = false;     // a matrix of rows that are looked up, or of classes: embedding, head

  bool operator==(const ParameterSpec&) const = default;
};

// padded:  tiles of 64 x 64, edge tiles filled up with zeros; vectors pooled.
// divisor: the published DeMo rule, for comparison: a side of length n is cut by its largest
// divisor
//          <= 64 (a prime side by 1); each vector is cut on its own; of more than two axes the last
//          two are cut and the leading ones are independent (Psyche's rule).
enum class Chunking { padded, divisor };

// Where one parameter lies within its unit: floats [offset, offset + size) of the trainable buffer,
// or of the frozen one.
struct Place {
  int unit = 0;
  std::size_t offset = 0;
  std::size_t size = 0;
  bool trainable = true;
};

// A trainable matrix, or a pool, with its grid of tiles.
struct Block {
  std::string name;
  int unit = 0;
  std::size_t offset = 0;  // in the unit's trainable buffer
  std::size_t rows = 0;    // the last row of a pool may be partly filled: size <= rows * cols
  std::size_t cols = 0;
  std::size_t size = 0;
  std::size_t tile_height = 0;  // <= kTileSide
  std::size_t tile_width = 0;   // <= kTileSide
  bool hidden = false;          // a matrix between activations
  bool table = false;           // of rows or classes; a block of vectors is neither

  std::size_t grid_rows() const { return (rows + tile_height - 1) / tile_height; }
  std::size_t grid_cols() const { return (cols + tile_width - 1) / tile_width; }
  std::size_t tile_coefficients() const { return tile_height * tile_width; }
};

// One row of tiles of one block: contiguous floats of the unit, which no shard cuts.
struct TileRow {
  std::size_t block = 0;  // index into Layout::blocks()
  std::size_t row = 0;    // 0 .. grid_rows() - 1
  std::size_t begin = 0;  // floats [begin, end) of the unit's trainable buffer
  std::size_t end = 0;
};

class Layout {
 public:
  // Throws UsageError for duplicate or empty names, unit numbers with holes, sizes that overflow.
  explicit Layout(std::vector<ParameterSpec> parameters, Chunking chunking = Chunking::padded);

  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  Chunking chunking() const { return chunking_; }
  const Place& place(std::size_t parameter) const { return places_.at(parameter); }
  std::size_t index_of(std::string_view name) const;  // throws Error for an unknown name

  int units() const { return static_cast<int>(unit_sizes_.size()); }
  std::size_t unit_size(int unit) const { return unit_sizes_.at(unit); }      // trainable floats
  std::size_t frozen_size(int unit) const { return frozen_sizes_.at(unit); }  // frozen floats
  std::size_t trainable_size() const;                                         // over all units

  const std::vector<Block>& blocks() const { return blocks_; }          // unit by unit, in order
  const std::vector<TileRow>& tile_rows() const { return tile_rows_; }  // the same order

  // The same places under the unit numbers of `declared`, the same parameters before they were
  // wrapped: what their model sees. A unit then has the buffers of the one that holds it.
  Layout seen_as(const std::vector<ParameterSpec>& declared) const;

  // Names, shapes, order, units, trainability and chunking in 64 bits.
  std::uint64_t hash() const { return hash_; }

 private:
  void place_unit(int unit);
  void add_block(Block block);

  std::vector<ParameterSpec> parameters_;
  Chunking chunking_;
  std::vector<Place> places_;
  std::vector<std::size_t> unit_sizes_;
  std::vector<std::size_t> frozen_sizes_;
  std::vector<Block> blocks_;
  std::vector<TileRow> tile_rows_;
  std::uint64_t hash_ = 0;
};

// ranks + 1 ascending offsets that cut a unit into shards: between rows of tiles, or between
// blocks.
std::vector<std::size_t> unit_cuts(const Layout& layout, int unit, int ranks,
                                   bool whole_blocks = false);

}  // namespace thinwire
