// A range coder: symbols with integer frequencies to bytes, within a thousandth of a bit of their
// entropy. Integers only, so equal on every machine. docs/wire_format.md has the arithmetic in
// words.
//
// The encoder keeps the lower end `low` (32 bits, carries run back into the bytes already written)
// and the width `range` of the interval; whenever range < 2^24 the top byte of low leaves. finish()
// writes the remaining four bytes of low: the stream is `low` itself and has exactly one form. The
// decoder keeps code = stream - low, so after the last symbol code == 0 for a stream of the
// encoder, and for no other stream with the same symbols.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "thinwire/types.h"

namespace thinwire {

inline constexpr std::uint32_t kRangeFull = 0xffffffffu;
inline constexpr std::uint32_t kRangeFloor = 1u << 24;  // width below which a byte is shifted out
inline constexpr std::uint32_t kTotalMax = 1u << 16;    // largest sum of frequencies

// A symbol's share of `total`: [below, below + width) with width >= 1.
struct Share {
  std::uint32_t below = 0;
  std::uint32_t width = 1;
};

// The width of one unit of `total`; a shift where that gives the same number.
inline std::uint32_t range_unit(std::uint32_t range, std::uint32_t total) {
  return std::has_single_bit(total) ? range >> std::countr_zero(total) : range / total;
}

// An adaptive bit: the probability of `true` in 1 / 2^15, from 32 / 2^15 to 1 - 31 / 2^15.
class BitModel {
 public:
  static constexpr int kBits = 15;
  Share share(bool bit) const {
    return bit ? Share{0, chance_} : Share{chance_, (1u << kBits) - chance_};
  }
  std::uint32_t chance() const { return chance_; }
  void learn(bool bit) {
    if (bit)
      chance_ += ((1u << kBits) - chance_) >> kRate;
    else
      chance_ -= chance_ >> kRate;
  }

 private:
  static constexpr int kRate = 5;
  std::uint32_t chance_ = 1u << (kBits - 1);
};

class RangeEncoder {
 public:
  explicit RangeEncoder(Bytes& out) : out_(out) {}  // appends; `out` must outlive the encoder

  // total <= kTotalMax.
  void encode(Share share, std::uint32_t total) {
    const std::uint32_t unit = range_unit(range_, total);
    const std::uint32_t low = low_ + share.below * unit;
    if (low < low_) carry();
    low_ = low;
    range_ = share.width * unit;
    while (range_ < kRangeFloor) shift();
  }
  void encode_uniform(std::uint32_t value, std::uint32_t total) { encode({value, 1}, total); }
  void encode_bit(BitModel& model, bool bit) {
    encode(model.share(bit), 1u << BitModel::kBits);
    model.learn(bit);
  }
  void finish() {
    for (int i = 0; i < 4; ++i) shift();
  }

 private:
  void shift() {
    out_.push_back(static_cast<std::byte>(low_ >> 24));
    low_ <<= 8;
    range_ <<= 8;
  }
  // Stops within this coder's bytes: low + range never passes the end of the first interval.
  void carry() {
    auto byte = out_.rbegin();
    while (*byte == std::byte{0xff}) *byte++ = std::byte{0};
    *byte = static_cast<std::byte>(static_cast<unsigned>(*byte) + 1);
  }

  Bytes& out_;
  std::uint32_t low_ = 0;
  std::uint32_t range_ = kRangeFull;
};

// Reads what RangeEncoder wrote, from bytes that may be anything: impossible values and a missing
// tail set failed(), after which symbols are still within their bounds but mean nothing.
class RangeDecoder {
 public:
  explicit RangeDecoder(ByteView in) : in_(in) {
    for (int i = 0; i < 4; ++i) code_ = (code_ << 8) | next();
  }

  // Where the next symbol lies in [0, total); take() must follow with its share.
  std::uint32_t peek(std::uint32_t total) {
    unit_ = range_unit(range_, total);
    const std::uint32_t value = code_ / unit_;
    if (value < total) return value;
    failed_ = true;
    return 0;
  }
  void take(Share share) {
    code_ -= share.below * unit_;
    range_ = share.width * unit_;
    while (range_ < kRangeFloor) {
      code_ = (code_ << 8) | next();
      range_ <<= 8;
    }
  }
  std::uint32_t decode_uniform(std::uint32_t total) {
    const std::uint32_t value = peek(total);
    take({value, 1});
    return value;
  }
  bool decode_bit(BitModel& model) {
    const bool bit = peek(1u << BitModel::kBits) < model.chance();
    take(model.share(bit));
    model.learn(bit);
    return bit;
  }

  bool failed() const { return failed_; }
  // After the last symbol: are the bytes read exactly those that the encoder would have written?
  bool exact() const { return !failed_ && code_ == 0; }
  std::size_t bytes_read() const { return read_; }

 private:
  std::uint32_t next() {
    if (read_ == in_.size()) {
      failed_ = true;
      return 0;
    }
    return static_cast<std::uint32_t>(in_[read_++]);
  }

  ByteView in_;
  std::size_t read_ = 0;
  std::uint32_t code_ = 0;
  std::uint32_t range_ = kRangeFull;
  std::uint32_t unit_ = 1;
  bool failed_ = false;
};

}  // namespace thinwire
