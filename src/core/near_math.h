// A unit's floats on their way between the ranks of a site, as fp32 or as bf16. All of it is
// collective, and right for one rank too: that one rounds as several would. `mine` and `whole` may
// lie on different devices; what a link cannot reach goes through the host's memory.
#pragma once

#include "thinwire/collective.h"
#include "thinwire/site_options.h"

namespace thinwire {

// whole = every rank's `mine`, rounded if it travels as bf16.
void gather_unit(Collective& near, ConstFloats mine, Floats whole, Cuts cuts, NearType type);
// mine = mean of this rank's part of `whole`, added up in fp32 and in rank order; with bf16 of the
// rounded values. `whole` is used up.
void reduce_unit(Collective& near, Floats whole, Floats mine, Cuts cuts, NearType type);
// The same mean for all of `whole`, on every rank.
void all_reduce_unit(Collective& near, Floats whole, NearType type);

}  // namespace thinwire
