#include "thinwire/device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "src/device/runtime.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr std::align_val_t kCacheLine{64};

// The one of them that is a device, if any.
Device device_of(Device a, Device b) { return a.is_host() ? b : a; }

struct Recorded {
  explicit Recorded(int on) : device(on), event(device::record(on)) {}
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { device::forget(device, event); }
  int device;
  void* event;
};

// What this thread hands over to `later` from now on is done after what it has handed over to
// `earlier`.
void put_in_order(Device earlier, Device later) {
  const Recorded point(earlier.index());
  device::follow(later.index(), point.event);
}

// In the order of either device.
void copy_between(ConstFloats from, Floats to) {
  put_in_order(to.device(), from.device());
  device::copy_between(from.device().index(), from.data(), to.device().index(), to.data(),
                       from.size_bytes());
  put_in_order(from.device(), to.device());
}

}  // namespace

const std::string& cuda_problem() { return device::problem(); }
int cuda_devices() { return device::count(); }

std::string name_of(Device device) {
  if (device.is_host()) return "host";
  return "CUDA device " + std::to_string(device.index()) + ", " + device::name(device.index());
}

void require(Device device) {
  if (device.is_host()) return;
  if (!cuda_problem().empty()) throw UsageError(cuda_problem());
  if (device.index() >= cuda_devices()) {
    throw UsageError("there is no CUDA device " + std::to_string(device.index()) +
                     "; this machine has " + std::to_string(cuda_devices()) + ", counted from 0");
  }
}

// Complete at once, so that its end gives back what was allocated before a device failed.
FloatBuffer::FloatBuffer(std::size_t count, Device device, Pages pages) : FloatBuffer() {
  pages_ = pages;
  const std::size_t bytes = count * sizeof(float);
  if (count == 0) {
    floats_ = {nullptr, 0, device};
  } else if (!device.is_host()) {
    floats_ = {static_cast<float*>(device::allocate(device.index(), bytes)), count, device};
    zero(floats_);
  } else {
    void* memory = pages == Pages::pinned ? device::allocate_pinned(bytes) : nullptr;
    if (memory == nullptr) {
      pages_ = Pages::plain;
      memory = ::operator new(bytes, kCacheLine);
    }
    std::memset(memory, 0, bytes);
    floats_ = {static_cast<float*>(memory), count};
  }
}

FloatBuffer::FloatBuffer(ConstFloats floats, Device device) : FloatBuffer(floats.size(), device) {
  thinwire::copy(floats, floats_);
}

FloatBuffer::FloatBuffer(const FloatBuffer& other)
    : FloatBuffer(other.size(), other.device(), other.pages_) {
  thinwire::copy(other, floats_);
}

FloatBuffer::FloatBuffer(FloatBuffer&& other) noexcept
    : floats_(std::exchange(other.floats_, {nullptr, 0, other.device()})), pages_(other.pages_) {}

FloatBuffer& FloatBuffer::operator=(FloatBuffer other) noexcept {
  std::swap(floats_, other.floats_);
  std::swap(pages_, other.pages_);
  return *this;
}

FloatBuffer::~FloatBuffer() {
  if (floats_.data() == nullptr) return;
  if (!floats_.on_host()) {
    device::release(floats_.device().index(), floats_.data());
  } else if (pages_ == Pages::pinned) {
    device::release_pinned(floats_.data());
  } else {
    ::operator delete(floats_.data(), kCacheLine);
  }
}

void copy(ConstFloats from, Floats to) {
  TW_CHECK(from.size() == to.size());
  if (from.empty()) return;
  if (!from.on_host() && !to.on_host() && from.device() != to.device()) {
    return copy_between(from, to);
  }
  const Device device = device_of(from.device(), to.device());
  if (device.is_host()) {
    std::memmove(to.data(), from.data(), from.size_bytes());
  } else {
    device::copy(device.index(), to.data(), from.data(), from.size_bytes(),
                 from.on_host() || to.on_host());
  }
}

void copy_bytes(ByteView from, Floats to) {
  TW_CHECK(from.size() == to.size_bytes());
  if (to.empty()) return;
  if (to.on_host()) {
    std::memcpy(to.data(), from.data(), from.size());
  } else {
    device::copy(to.device().index(), to.data(), from.data(), from.size(), true);
  }
}

void zero(Floats floats) {
  if (floats.empty()) return;
  if (floats.on_host()) {
    std::memset(floats.data(), 0, floats.size_bytes());
  } else {
    device::zero(floats.device().index(), floats.data(), floats.size_bytes());
  }
}

std::vector<float> to_host(ConstFloats floats) {
  std::vector<float> values(floats.size());
  copy(floats, values);
  return values;
}

Near::Near(ConstFloats floats, Device device) : floats_(floats) {
  if (floats.device() == device) return;
  copy_ = FloatBuffer(floats, device);
  floats_ = copy_;
}

void wait_for(Device device) {
  if (!device.is_host()) device::wait(device.index());
}

bool is_idle(Device device) { return device.is_host() || device::idle(device.index()); }

struct Mark::Event : Recorded {
  using Recorded::Recorded;
};

Mark Mark::here(Device device) {
  Mark mark;
  if (!device.is_host()) {
    mark.event_ = std::make_shared<Event>(device.index());
  }
  return mark;
}

void Mark::join() const {
  if (event_) device::follow(event_->device, event_->event);
}

}  // namespace thinwire
