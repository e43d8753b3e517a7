// A long message of the far link on its way: cut into pieces, so that others can go in between and
// each piece is a sign of life, and put together on the other side. docs/far_link.md, "Pieces".
//
// A message of at most kPieceBytes travels as it is. No sockets, no clocks. Internal to transports/
// and tests/.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "thinwire/error.h"
#include "thinwire/types.h"

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
  Cutter(std::uint64_t id, Bytes message);
  bool done() const { return offset_ == message_.size(); }
  std::size_t left() const { return message_.size() - offset_; }
  Bytes next();
  const Bytes& message() const { return message_; }

 private:
  std::uint64_t id_;
  Bytes message_;
  std::size_t offset_ = 0;
};

// Bytes that grow without being copied: the memory of a long one is moved by its pages.
class GrowingBytes {
 public:
  void append(ByteView bytes, std::size_t final_size);
  void clear() { size_ = 0; }  // keeps the memory
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  ByteView view() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Of one connection, whose end drops what is unfinished. Judges bytes from outside: what it holds
// is at most twice what came, and at most `longest` is under way at a time.
class Joiner {
 public:
  explicit Joiner(std::size_t longest) : longest_(longest) {}

  // The message that this piece completes, nothing when more must come, or why the piece is
  // refused; with it goes what had come of its message.
  Result<std::optional<GrowingBytes>> take(ByteView piece);
  // Gives the memory of a message back, for the next one: fresh memory costs more than the copy.
  void reuse(GrowingBytes bytes);

 private:
  struct Unfinished {
    std::size_t total = 0;
    GrowingBytes bytes;
  };

  std::size_t longest_;
  std::size_t announced_ = 0;  // lengths of the unfinished
  GrowingBytes spare_;
  std::map<std::uint64_t, Unfinished> unfinished_;
};

}  // namespace thinwire::hub
