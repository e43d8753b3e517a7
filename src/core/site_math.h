// Numbers that all ranks of a site must agree on: the norm of sharded values and the hash of the
// model. Both are folded over tile rows in layout order, so that they do not depend on how many
// ranks share the site. Collective: every rank of the site calls them.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/shard.h"

namespace thinwire {

// L2 norm over all shards of `values` (as long as shard.params()). NaN or infinite when some value
// is.
double site_norm(const Shard& shard, ConstFloats values, Collective& near);
// Of parameters and replicated state, over all shards.
std::uint64_t site_hash(const Shard& shard, Collective& near);
// The same over this rank's rows alone. Not collective.
std::uint64_t shard_hash(const Shard& shard);

// What each rank says, rank after rank; all say equally much. Collective.
std::vector<std::uint64_t> words_of_all(const std::vector<std::uint64_t>& mine, Collective& near);

}  // namespace thinwire
