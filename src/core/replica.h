// The replicated part of a shard as bytes: parameters, then the replicated states in the order they
// are declared.
#pragma once

#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire {

Bytes pack_replica(const Shard& shard);
// All other states and the gradient become zero. Throws Error when the bytes are of another shard.
void unpack_replica(ByteView bytes, Shard& shard);

}  // namespace thinwire
