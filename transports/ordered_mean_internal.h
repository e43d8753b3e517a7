// The one way in which means are made, so that their bits are those of every other transport.
// Internal to transports/.
#pragma once

#include <span>

#include "thinwire/types.h"

namespace thinwire {

// out = mean of the sources, summed in their order, element by element; each holds out.size()
// floats. `out` may be the very place of one source.
void ordered_mean(std::span<const float* const> sources, Floats out);

}  // namespace thinwire
