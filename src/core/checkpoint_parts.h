// How the floats of a rank's part are cut into named tensors: parameters by name, states by
// parameter or block. Every tensor is one run of a whole that has the same name in the parts of all
// ranks, so that a part for any number of ranks is read run by run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/layout.h"
#include "thinwire/shard.h"

namespace thinwire {

struct PartTensor {
  std::string name;
  std::vector<std::size_t> shape;  // of this run
  std::size_t offset = 0;          // in the section's floats: params(), a state
  std::size_t size = 0;
  std::size_t begin = 0;  // in the whole
};

struct PartOf {
  int rank = 0;
  int ranks = 1;
  bool whole_blocks = false;  // how the part is cut out of its units

  bool operator==(const PartOf&) const = default;
};

inline const std::string kParametersPrefix = "parameters/";
inline const std::string kLinkName = "link";
std::string state_prefix(const StateSpec& spec);  // "states/NAME/"

// Of params(), and of states with that extent.
std::vector<PartTensor> element_tensors(const Layout& layout, PartOf part,
                                        const std::string& prefix);
std::vector<PartTensor> state_tensors(const Layout& layout, PartOf part, const StateSpec& spec);

// A row of tiles of the layout that lies in the part, and its first tile there.
struct PartRow {
  std::size_t row = 0;  // index into Layout::tile_rows()
  std::size_t first_tile = 0;
  std::size_t tiles = 0;
  std::size_t floats = 0;     // how many of params() it is
  std::size_t offset = 0;     // in params()
  std::size_t tile_size = 0;  // coefficients of a tile
};
std::vector<PartRow> part_rows(const Layout& layout, PartOf part);
std::size_t part_floats(const Layout& layout, PartOf part);  // of its params()

}  // namespace thinwire
