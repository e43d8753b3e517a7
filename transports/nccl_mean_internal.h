// The ordered mean on a device, for the table over NCCL's own library. Internal to
// transports/nccl*.
#pragma once

#include <cstddef>
#include <span>

#include "thinwire/types.h"

namespace thinwire {

inline constexpr std::size_t kNcclRanksMax = 256;  // what a kernel's parameters have room for

// ordered_mean of floats that lie on out.device(), in the calling thread's stream. [replicated]
void nccl_mean(std::span<const float* const> sources, Floats out);

}  // namespace thinwire
