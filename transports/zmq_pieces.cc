#include <algorithm>
#include <concepts>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "transports/zmq_pieces_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::byte kPieceMagic{0x76};
constexpr std::byte kPieceVersion{1};
constexpr std::size_t kFirstCapacity = 1 << 20;

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

Cutter::Cutter(std::uint64_t id, Bytes message) : id_(id), message_(std::move(message)) {
  TW_CHECK(message_.size() > kPieceBytes);
}

Bytes Cutter::next() {
  const ByteView bytes = ByteView(message_).subspan(offset_, std::min(kPieceBytes, left()));
  Bytes piece;
  piece.reserve(kPieceHead + bytes.size());
  piece.push_back(kPieceMagic);
  piece.push_back(kPieceVersion);
  put(piece, id_);
  put(piece, message_.size());
  put(piece, offset_);
  piece.insert(piece.end(), bytes.begin(), bytes.end());
  offset_ += bytes.size();
  return piece;
}

void GrowingBytes::append(ByteView bytes, std::size_t final_size) {
  TW_CHECK(bytes.size() <= final_size - size_);
  if (bytes.size() > capacity_ - size_) {
    const std::size_t grown = std::max({2 * capacity_, size_ + bytes.size(), kFirstCapacity});
    const std::size_t capacity = std::min(grown, final_size);
    auto* data = static_cast<std::byte*>(std::realloc(data_.get(), capacity));
    if (data == nullptr) throw std::bad_alloc();
    static_cast<void>(data_.release());
    data_.reset(data);
    capacity_ = capacity;
  }
  std::memcpy(data_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
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
    Unfinished begun{static_cast<std::size_t>(total), std::exchange(spare_, {})};
    found = unfinished_.emplace(id, std::move(begun)).first;
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

void Joiner::reuse(GrowingBytes bytes) {
  if (bytes.capacity() <= spare_.capacity()) return;
  spare_ = std::move(bytes);
  spare_.clear();
}

}  // namespace thinwire::hub
