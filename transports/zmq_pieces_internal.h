// A long message of the far link on its way: cut into pieces, so that others can go in between and
// each piece is a sign of life, and put together on the other side. docs/far_link.md, "Pieces".
//
// A message of at most kPieceBytes travels as it is. No sockets, no clocks. Internal to transports/
// and tests/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "thinwire/error.h"
#include "thinwire/types.h"
#include "transports/shared_bytes_internal.h"

namespace thinwire::hub {

// 0.2 s of a 10 Mbit/s line. Everything but posts, results and status fits into one.
inline constexpr std::size_t kPieceBytes = 256 << 10;
// Magic and version, then the id of the message, its length and the place of the piece, u64 each.
inline constexpr std::size_t kPieceHead = 2 + 3 * 8;
inline constexpr std::size_t kUnfinishedMax = 4;  // messages of one connection

bool is_piece(ByteView bytes);

class Cutter {
 public:
  // `id` is of no other message that is under way in the same connection.
  Cutter(std::uint64_t id, Encoded message);
  bool done() const { return offset_ == message_.size(); }
  std::size_t left() const { return message_.size() - offset_; }
  SharedBytes next();
  const Encoded& message() const { return message_; }

 private:
  std::uint64_t id_;
  Encoded message_;
  std::size_t offset_ = 0;
};

// Of one connection, whose end drops what is unfinished. Judges bytes from outside: what it holds
// is at most twice what came, or memory that was there, and at most `longest` is under way at a
// time.
class Joiner {
 public:
  explicit Joiner(std::size_t longest) : longest_(longest) {}

  // The message that this piece completes, nothing when more must come, or why the piece is
  // refused; with it goes what had come of its message.
  Result<std::optional<GrowingBytes>> take(ByteView piece);

 private:
  struct Unfinished {
    std::size_t total = 0;
    GrowingBytes bytes;
  };

  std::size_t longest_;
  std::size_t announced_ = 0;  // lengths of the unfinished
  std::map<std::uint64_t, Unfinished> unfinished_;
};

}  // namespace thinwire::hub
