#include <algorithm>
#include <concepts>
#include <string>
#include <utility>

#include "transports/zmq_pieces_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::byte kPieceMagic{0x76};
constexpr std::byte kPieceVersion{1};

void put(Bytes& out, std::uint64_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::uint64_t get(ByteView bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

}  // namespace

bool is_piece(ByteView bytes) { return !bytes.empty() && bytes[0] == kPieceMagic; }

Cutter::Cutter(std::uint64_t id, Encoded message) : id_(id), message_(std::move(message)) {
  TW_CHECK(message_.size() > kPieceBytes);
}

SharedBytes Cutter::next() {
  const std::size_t count = std::min(kPieceBytes, left());
  Bytes head{kPieceMagic, kPieceVersion};
  put(head, id_);
  put(head, message_.size());
  put(head, offset_);
  GrowingBytes piece;
  const auto append = [&](ByteView bytes) { piece.append(bytes, kPieceHead + count); };
  append(head);
  message_.read(offset_, count, append);
  offset_ += count;
  return piece;
}

Result<std::optional<GrowingBytes>> Joiner::take(ByteView piece) {
  using Taken = Result<std::optional<GrowingBytes>>;
  if (!is_piece(piece) || piece.size() <= kPieceHead || piece[1] != kPieceVersion)
    return Taken::refuse("bytes that are no piece of a message");
  const std::uint64_t id = get(piece, 2);
  const std::uint64_t total = get(piece, 10);
  const std::uint64_t offset = get(piece, 18);
  const ByteView bytes = piece.subspan(kPieceHead);
  auto found = unfinished_.find(id);
  const auto refuse = [&](std::string why) {
    if (found != unfinished_.end()) {
      announced_ -= found->second.total;
      unfinished_.erase(found);
    }
    return Taken::refuse(std::move(why));
  };
  const std::size_t here = found == unfinished_.end() ? 0 : found->second.bytes.size();
  if (offset != here || (found != unfinished_.end() && total != found->second.total))
    return refuse("a piece out of order: another one, or the beginning, was to come");
  if (total <= kPieceBytes || offset >= total ||
      bytes.size() != std::min<std::uint64_t>(kPieceBytes, total - offset))
    return refuse("a piece of the wrong length");
  if (found == unfinished_.end()) {
    if (total > longest_ - announced_)
      return refuse("a message of " + std::to_string(total) + " bytes, at most " +
                    std::to_string(longest_) + " may be on the way");
    if (unfinished_.size() == kUnfinishedMax) return refuse("pieces of too many messages at once");
    found = unfinished_.emplace(id, Unfinished{static_cast<std::size_t>(total), {}}).first;
    announced_ += total;
  }
  Unfinished& message = found->second;
  message.bytes.append(bytes, message.total);
  if (message.bytes.size() < message.total) return std::optional<GrowingBytes>();
  std::optional<GrowingBytes> whole(std::move(message.bytes));
  announced_ -= message.total;
  unfinished_.erase(found);
  return whole;
}

}  // namespace thinwire::hub
