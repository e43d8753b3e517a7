// The part of a model that one rank owns: parameters, gradient and everything its optimizer
// remembers. An optimizer sees nothing else. A Shard is a value; it belongs to one thread at a
// time.
//
// Its floats are the rank's contiguous ranges of all units, unit after unit. With one rank in a
// site the shard is the whole model. They lie on the shard's device; states of extent `whole` lie
// on the host, always.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/device.h"
#include "thinwire/layout.h"
#include "thinwire/state_spec.h"
#include "thinwire/tile.h"
#include "thinwire/types.h"

namespace thinwire {

// Consecutive tile rows of one block that lie in this shard. A whole matrix if rows == block rows.
struct Piece {
  std::size_t block = 0;      // index into Layout::blocks()
  std::size_t first_row = 0;  // first value row of the block that lies here
  std::size_t rows = 0;       // value rows
  std::size_t cols = 0;
  std::size_t offset = 0;  // in params()
  std::size_t size = 0;
  std::size_t first_tile = 0;  // in tiles()
  std::size_t tiles = 0;
};

// Floats [offset, offset + size) of params(); size 0: another rank owns them.
struct ShardRange {
  std::size_t offset = 0;
  std::size_t size = 0;
};

class Shard {
 public:
  // The part of `rank` among `ranks`, every unit cut as evenly as its tile rows allow, or its
  // blocks where these stay whole. `layout` must outlive the shard. All values start at zero.
  // Throws UsageError for a rank outside 0 .. ranks - 1.
  Shard(const Layout& layout, int rank, int ranks, std::span<const StateSpec> states = {},
        bool whole_blocks = false, Device device = {});

  Device device() const { return grad_.device(); }
  // The same shard with the same values there.
  Shard copy_on(Device device) const;
  // The values of such a copy.
  void take_values(const Shard& other);

  Floats params() { return params_; }
  ConstFloats params() const { return params_; }
  Floats grad() { return grad_; }
  ConstFloats grad() const { return grad_; }

  // The state of that name. Aborts for a name that Traits::states did not declare.
  Floats state(std::string_view name);
  ConstFloats state(std::string_view name) const;
  const std::vector<StateSpec>& states() const { return specs_; }

  Tiles tiles() const { return {tiles_, tiles_on_device_.get()}; }
  std::span<const Piece> pieces() const { return pieces_; }
  std::size_t coefficients() const { return coefficients_; }

  const Layout& layout() const { return *layout_; }
  // Where `unit` begins in params(); its length is cut(unit, rank + 1) - cut(unit, rank).
  std::size_t unit_offset(int unit) const { return unit_offsets_.at(unit); }
  // ranks + 1 ascending offsets: rank r owns floats [cuts[r], cuts[r + 1]) of the unit.
  std::span<const std::size_t> cuts(int unit) const { return cuts_.at(unit); }
  // Where that tile row of the layout lies.
  ShardRange range(std::size_t tile_row) const;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool whole_blocks() const { return whole_blocks_; }  // every block has one owner

 private:
  void add_piece(const Block& block, std::size_t index, std::size_t begin, std::size_t end);

  const Layout* layout_;
  int rank_;
  int ranks_;
  bool whole_blocks_;
  std::vector<std::vector<std::size_t>> cuts_;
  std::vector<std::size_t> unit_offsets_;
  std::vector<Tile> tiles_;
  std::vector<Piece> pieces_;
  std::size_t coefficients_ = 0;
  FloatBuffer params_;
  FloatBuffer grad_;
  std::vector<StateSpec> specs_;
  std::map<std::string, FloatBuffer, std::less<>> states_;
  std::shared_ptr<const Tile> tiles_on_device_;
};

// For each tile row of the layout 64 bits over its parameters and replicated state; 0 where another
// rank owns the row. The hash of a model is folded over rows in layout order, so that sites with
// different numbers of ranks compare.
std::vector<std::uint64_t> row_hashes(const Shard& shard);

}  // namespace thinwire
