// Pieces of several messages in any order, some of them wrong: what is put together is a message
// that was cut, and no longer than it may be. And any bytes as a piece.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/error.h"
#include "transports/zmq_pieces_internal.h"

using namespace thinwire;

namespace {

constexpr std::size_t kLongest = 4 * hub::kPieceBytes;

// Byte `i` of the message with that id.
std::byte byte_at(std::uint64_t id, std::size_t i) {
  return static_cast<std::byte>(id * 31 + i / 4096 * 7 + i);
}

Bytes message_of(std::uint64_t id) {
  Bytes message(hub::kPieceBytes + 1 + id * 70'000);
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = byte_at(id, i);
  return message;
}

// All pieces of 16 messages, the last four of which are too long.
const std::map<std::uint64_t, std::vector<Bytes>>& all_pieces() {
  static const auto pieces = [] {
    std::map<std::uint64_t, std::vector<Bytes>> made;
    for (std::uint64_t id = 0; id < 16; ++id) {
      for (hub::Cutter cutter(id, message_of(id)); !cutter.done();)
        made[id].push_back(cutter.next().copy());
    }
    return made;
  }();
  return pieces;
}

void judge(hub::Joiner& joiner, ByteView piece, std::optional<std::uint64_t> id) {
  const auto taken = joiner.take(piece);
  if (!taken) TW_CHECK(!taken.why().empty());
  if (!taken || !*taken) return;
  const ByteView whole = (*taken)->view();
  TW_CHECK(whole.size() > hub::kPieceBytes && whole.size() <= kLongest);
  if (id) TW_CHECK(std::ranges::equal(whole, message_of(*id)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hub::Joiner joiner(kLongest);
  judge(joiner, std::as_bytes(std::span(data, size)), std::nullopt);
  bool honest = true;  // no byte of a piece was changed
  for (std::size_t at = 0; at + 1 < size && at < 64; at += 2) {
    const std::uint64_t id = data[at] & 15;
    const auto& pieces = all_pieces().at(id);
    const Bytes& piece = pieces[(data[at] >> 4) % pieces.size()];
    const std::uint8_t change = data[at + 1];
    if (change < 128) {
      judge(joiner, piece, honest ? std::optional(id) : std::nullopt);
      continue;
    }
    honest = false;
    Bytes changed = piece;
    changed[change % hub::kPieceHead] ^= static_cast<std::byte>(1u << (change & 7));
    if (change > 240) changed.pop_back();
    judge(joiner, changed, std::nullopt);
  }
  return 0;
}
