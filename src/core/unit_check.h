// Ranks of a site compare what they would compute with.
#pragma once

#include <string>

#include "thinwire/collective.h"
#include "thinwire/model.h"

namespace thinwire {

// Gathers every unit and compares its hash over the ranks: memory or network may have damaged one
// rank's copy. The first unit that differs, and whose it is where most agree; or nothing. The same
// text on all ranks. Collective.
std::string differing_unit(Units& units, Collective& near);

}  // namespace thinwire
