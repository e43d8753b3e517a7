// Long runs of bytes that travel through hub and sites without being copied: those who keep, send
// and read one share it. Memory of long runs is used again, since fresh pages cost more than the
// copy into them. Any thread. Internal to transports/ and apps/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire::hub {

// Bytes that grow without being copied: the memory of a long one is moved by its pages. In the end
// it goes to the spares of the process, where the next one of about that final size takes it from.
class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(GrowingBytes&& other) noexcept { *this = std::move(other); }
  GrowingBytes& operator=(GrowingBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~GrowingBytes();

  void append(ByteView bytes, std::size_t final_size);
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  std::byte* data() { return data_; }
  ByteView view() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// All copies are the same bytes in memory.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(Bytes bytes) : SharedBytes(std::make_shared<Bytes>(std::move(bytes))) {}
  SharedBytes(GrowingBytes bytes) : SharedBytes(std::make_shared<GrowingBytes>(std::move(bytes))) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::byte* data() const { return data_; }
  const std::byte* begin() const { return data_; }
  const std::byte* end() const { return data_ + size_; }
  Bytes copy() const { return Bytes(begin(), end()); }
  // Keeps all of this one's memory.
  SharedBytes part(std::size_t offset, std::size_t size) const {
    TW_CHECK(offset <= size_ && size <= size_ - offset);
    SharedBytes part = *this;
    part.data_ += offset;
    part.size_ = size;
    return part;
  }
  // To be written to; no other sees it.
  std::byte* edit() {
    if (owner_.use_count() > 1) *this = SharedBytes(copy());
    return data_;
  }
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) {
    return a.size_ == b.size_ && (a.data_ == b.data_ || std::equal(a.begin(), a.end(), b.begin()));
  }

 private:
  template <class Owner>
  explicit SharedBytes(std::shared_ptr<Owner> owner)
      : data_(owner->data()), size_(owner->size()), owner_(std::move(owner)) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<void> owner_;
};

// An encoded message: its bytes one run after the other.
class Encoded {
 public:
  Encoded() = default;
  Encoded(Bytes bytes) { append(std::move(bytes)); }
  void append(SharedBytes run) {
    if (run.empty()) return;
    size_ += run.size();
    runs_.push_back(std::move(run));
  }
  std::size_t size() const { return size_; }
  // Hands over `count` bytes from `offset` on, run by run.
  void read(std::size_t offset, std::size_t count, const std::function<void(ByteView)>& take) const;
  Bytes joined() const;
  SharedBytes shared() const { return runs_.size() == 1 ? runs_[0] : SharedBytes(joined()); }
  bool operator==(const Encoded&) const = default;  // of the same kind of messages

 private:
  std::vector<SharedBytes> runs_;
  std::size_t size_ = 0;
};

}  // namespace thinwire::hub
