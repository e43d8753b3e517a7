// For orthogonalize.cc and its twin.
#pragma once

#include <cstddef>

namespace thinwire::kernels {

// A matrix's squares are summed in pieces of so many values, and these in order: pieces have no
// order among themselves on a device.
inline constexpr std::size_t kNormPiece = 4096;

}  // namespace thinwire::kernels
