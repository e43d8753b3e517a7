// Little-endian numbers in runs of bytes, whatever the machine. For src/codec only.
#pragma once

#include <concepts>
#include <cstddef>

#include "thinwire/types.h"

namespace thinwire {

template <std::unsigned_integral T>
void put_le(Bytes& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

// `from` must hold sizeof(T) bytes.
template <std::unsigned_integral T>
T get_le(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(from[i]) << (8 * i)));
  return value;
}

inline void append(Bytes& out, ByteView bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Bytes from outside, taken from the front. Nothing is read past the end.
class Reader {
 public:
  explicit Reader(ByteView bytes) : rest_(bytes) {}

  std::size_t left() const { return rest_.size(); }
  ByteView rest() const { return rest_; }

  // The next `count` bytes; false, and nothing taken, when there are fewer.
  bool take(std::size_t count, ByteView& bytes) {
    if (count > rest_.size()) return false;
    bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return true;
  }
  template <std::unsigned_integral T>
  bool take(T& value) {
    ByteView bytes;
    if (!take(sizeof(T), bytes)) return false;
    value = get_le<T>(bytes.data());
    return true;
  }

 private:
  ByteView rest_;
};

}  // namespace thinwire
