// What one rank tells the ranks that own the same part at other sites. A value, not bytes: the
// codec turns it into bytes and back without losing a bit; every loss happens in
// Optimizer::extract.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "thinwire/device.h"
#include "thinwire/types.h"

namespace thinwire {

// Chosen coefficients of each tile of a shard, tile after tile.
struct Picks {
  int value_bits = 32;  // width of a code: 1, 2, 4, 8, 16 or 32
  // Per tile: how many were chosen, 0 .. coefficients of the tile.
  std::vector<std::uint16_t> counts = {};
  // Within the tile, strictly ascending.
  std::vector<std::uint16_t> positions = {};
  // One per position. What a code means is the optimizer's affair; see below.
  std::vector<std::uint32_t> codes = {};
  // Empty, or one finite value for each tile with counts > 0.
  std::vector<float> scales = {};

  bool operator==(const Picks&) const = default;
};

struct Update {
  // One value per float of the shard, or none. Where updates are gathered, fewer are allowed: what
  // they mean is the method's affair (a low rank factor).
  std::vector<float> dense = {};
  Picks picks = {};

  // Nothing to say: no dense values and no chosen coefficient.
  bool empty() const { return dense.empty() && picks.positions.empty(); }
  bool operator==(const Update&) const = default;
};

// What the updates of a method look like. An update from outside of another form is refused: a site
// that says more than the method allows would weigh more than the others.
struct UpdateForm {
  bool dense = true;                    // may there be dense values?
  int value_bits = 0;                   // of the codes; 0: any width
  std::uint16_t picks_a_tile = 0xffff;  // at most
  bool scales = true;                   // may there be scales?
  // Are dense values always one per float of the shard? Else a method that hears another number of
  // them than it expects must be ready for it.
  bool dense_whole = false;
};

// The dense update that says these values, wherever they lie, with room for what an all-reduce
// adds: 1 + 5 floats a site. With more than a hundred sites they are copied once more.
inline Update dense_update(ConstFloats values) {
  Update update;
  update.dense.reserve(values.size() + 512);
  if (values.on_host()) {
    update.dense.assign(values.begin(), values.end());
  } else {
    update.dense.resize(values.size());
    copy(values, update.dense);
  }
  return update;
}

// What is heard of one site. `update` is never empty.
struct Contribution {
  int site = 0;
  Update update;
};

// The two common meanings of a code: a one-bit vote (0 is +1, 1 is -1) and a plain float.
inline std::uint32_t vote_code(float value) { return std::bit_cast<std::uint32_t>(value) >> 31; }
inline int vote_of(std::uint32_t code) { return code == 0 ? 1 : -1; }
inline std::uint32_t float_code(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float float_of(std::uint32_t code) { return std::bit_cast<float>(code); }

}  // namespace thinwire
