// The few plain words everything else is written in: spans of floats and runs of bytes.
// Spans borrow; a function's span must stay valid until the function returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thinwire {

using Floats = std::span<float>;
using ConstFloats = std::span<const float>;
using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

// What went through a link since it was opened, counted where bytes are handed to the transport.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t refused = 0;  // frames that arrived but were not used: late, repeated, unknown

  bool operator==(const Traffic&) const = default;
};

}  // namespace thinwire
