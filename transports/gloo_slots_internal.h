// Which messages are for what: Gloo keeps those of one slot between two ranks in their order.
// Internal to transports/gloo*.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::near {

inline constexpr std::uint64_t kHeaderSlot = 0;
inline constexpr std::uint64_t kFarewellSlot = 1;
inline constexpr std::uint64_t kDataSlot = 2;

inline constexpr std::size_t kPiece = 256 * 1024;  // floats of a message
inline constexpr std::size_t kInFlight = 4;        // pieces of a peer that wait to be summed

}  // namespace thinwire::near
