// What travels between sites: a header that says whose update of which round this is, and the
// payload of codec.h. docs/wire_format.md is the law. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/error.h"
#include "thinwire/exchange.h"
#include "thinwire/types.h"

namespace thinwire {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 52;

struct Header {
  std::uint64_t agreement = 0;   // layout and all settings that must match
  Round round;                   // phase <= 255
  int site = 0;                  // 0 .. 65535
  int part = 0;                  // which rank's shard, 0 .. 65535
  std::uint64_t state_hash = 0;  // of the replicated state that the update was made from

  bool operator==(const Header&) const = default;
};

// What the receiver knows of the frame that it is about to open.
struct Expected {
  std::uint64_t agreement = 0;
  Round round;
  int site = 0;
  int part = 0;
};

struct Opened {
  Header header;
  ByteView payload;  // borrows from the frame
};

Bytes seal(const Header& header, ByteView payload);

// Refuses whatever is not a whole, undamaged frame of this protocol from the expected site, part,
// round and agreement. The state hash is the receiver's affair.
Result<Opened> open(ByteView frame, const Expected& expected);

}  // namespace thinwire
