// Updates in flight, as they are saved and as another number of ranks needs them.
#pragma once

#include <string>
#include <vector>

#include "src/core/checkpoint_parts.h"
#include "src/core/checkpoint_tensors.h"
#include "thinwire/heard.h"

namespace thinwire {

struct SavedFlight {
  std::string name;   // "flight/STEP"
  std::string about;  // the step, as JSON
  Bytes bytes;        // the update, as the codec writes it
};

std::vector<SavedFlight> save_flights(const Layout& layout, PartOf part,
                                      const std::vector<InFlight>& in_flight);
// Oldest first. Refuses what cannot be.
Result<std::vector<InFlight>> load_flights(const Layout& layout, PartOf part,
                                           const TensorFile& file);

// What a site's guard takes for usual, in a file's metadata.
inline constexpr const char* kGuardName = "guard";
std::string guard_text(const LossGuard::Usual& usual);
LossGuard::Usual guard_from(const TensorFile& file);  // of one without: as at the beginning

// The updates of all ranks of a site for one step, cut as `saved` says whatever its rank, cut anew.
Update recut(const Layout& layout, const std::vector<const Update*>& by_rank, PartOf saved,
             PartOf part);

}  // namespace thinwire
