// Values of any plain type on a device, for kernels and models.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "src/device/runtime.h"
#include "thinwire/types.h"

namespace thinwire::device {

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  Array(Device device, std::size_t count) : device_(device), count_(count) {
    if (count > 0) values_ = static_cast<T*>(allocate(device.index(), count * sizeof(T)));
  }
  Array(Device device, std::span<const T> values) : Array(device, values.size()) {
    if (count_ > 0) copy(device_.index(), values_, values.data(), count_ * sizeof(T), true);
  }
  Array(Array&& other) noexcept
      : device_(other.device_),
        count_(std::exchange(other.count_, 0)),
        values_(std::exchange(other.values_, nullptr)) {}
  Array& operator=(Array other) noexcept {
    std::swap(device_, other.device_);
    std::swap(count_, other.count_);
    std::swap(values_, other.values_);
    return *this;
  }
  ~Array() {
    if (values_ != nullptr) release(device_.index(), values_);
  }

  T* get() const { return values_; }
  std::size_t size() const { return count_; }
  // The first values.size() of them; waits.
  void download(std::span<T> values) const {
    if (!values.empty()) {
      copy(device_.index(), values.data(), values_, values.size_bytes(), true);
    }
  }
  void zero() {
    if (count_ > 0) device::zero(device_.index(), values_, count_ * sizeof(T));
  }

 private:
  Device device_;
  std::size_t count_ = 0;
  T* values_ = nullptr;
};

}  // namespace thinwire::device
