// The few plain words everything else is written in: spans of floats and runs of bytes.
// Spans borrow; a function's span must stay valid until the function returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace thinwire {

// Where floats lie: in the host's memory, or in that of a CUDA device, by its number.
class Device {
 public:
  constexpr Device() = default;  // the host
  static constexpr Device cuda(int index) { return Device(index); }
  constexpr bool is_host() const { return index_ < 0; }
  constexpr int index() const { return index_; }
  constexpr bool operator==(const Device&) const = default;

 private:
  explicit constexpr Device(int index) : index_(index) {}
  int index_ = -1;
};

// A std::span that knows where its floats lie. Those of a device cannot be read or written by the
// host's own code: kernels.h and device.h take them, in the order in which a thread hands them over
// (device.h). Whatever comes out of a vector lies on the host.
template <class T>
class FloatSpan : public std::span<T> {
  using Base = std::span<T>;
  template <class Other>
  static constexpr bool kAddsConst =
      std::is_const_v<T>&& std::is_same_v<Other, std::remove_const_t<T>>;
  template <class Range>
  static constexpr bool kIsOurs =
      std::is_base_of_v<FloatSpan<const float>, std::remove_cvref_t<Range>> ||
      std::is_base_of_v<FloatSpan<float>, std::remove_cvref_t<Range>>;

 public:
  constexpr FloatSpan() = default;
  constexpr FloatSpan(T* first, std::size_t count, Device device = {})
      : Base(first, count), device_(device) {}
  template <std::contiguous_iterator It>
  requires(!std::is_pointer_v<It>) constexpr FloatSpan(It first, std::size_t count)
      : Base(first, count) {}
  template <std::contiguous_iterator It>
  constexpr FloatSpan(It first, It last) : Base(first, last) {}
  template <class Range>  // itself a range: what turns into a span of ours keeps its device
  requires(
      !kIsOurs<Range> && std::ranges::contiguous_range<Range> &&
      std::is_constructible_v<Base, Range>) constexpr FloatSpan(Range&& range)  // NOLINT: a vector
      : Base(std::forward<Range>(range)) {}
  template <class Other>
  requires(kAddsConst<Other>) constexpr FloatSpan(const FloatSpan<Other>& other)  // NOLINT
      : Base(other), device_(other.device()) {}

  constexpr Device device() const { return device_; }
  constexpr bool on_host() const { return device_.is_host(); }

  constexpr FloatSpan subspan(std::size_t offset) const {
    return {this->data() + offset, this->size() - offset, device_};
  }
  constexpr FloatSpan subspan(std::size_t offset, std::size_t count) const {
    if (count == std::dynamic_extent) return subspan(offset);
    return {this->data() + offset, count, device_};
  }
  constexpr FloatSpan first(std::size_t count) const { return {this->data(), count, device_}; }
  constexpr FloatSpan last(std::size_t count) const {
    return {this->data() + this->size() - count, count, device_};
  }

 private:
  Device device_;
};

using Floats = FloatSpan<float>;
using ConstFloats = FloatSpan<const float>;
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

template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<thinwire::FloatSpan<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_view<thinwire::FloatSpan<T>> = true;
