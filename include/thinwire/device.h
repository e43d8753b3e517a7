// Memory of devices, and the order of what is done with it.
//
// A thread has one stream on each device: what it hands over, here or through kernels.h, is done
// there in that order, after the call has returned. A call that returns a value, or that reads or
// writes the host's memory, waits until it is done. A Mark brings what two threads hand over into
// an order. Safe from any thread, unlike the memory itself.
//
// Of the host's memory all of this may be asked too; then it is done at once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/types.h"

namespace thinwire {

// Why no CUDA device can be used, in one line with the driver's own words; empty when one can.
const std::string& cuda_problem();
// Those that can be used, numbered from 0: none where there is a problem.
int cuda_devices();
// "host", or the number and name of a card.
std::string name_of(Device device);
// Throws UsageError, with the driver's answer or the numbers that exist, unless it can be used.
void require(Device device);

// Where the floats of a buffer lie: `pinned` is host memory that devices copy from and to without a
// detour, or plain memory where the driver gives none.
enum class Pages { plain, pinned };

// Floats of its own, zeros at first. A copy lies on the same device. Throws Error, with what was
// asked for and what is free, when there is no room; nothing is lost.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(std::size_t count, Device device = {}, Pages pages = Pages::plain);
  // The same floats, copied to `device`.
  FloatBuffer(ConstFloats floats, Device device);
  FloatBuffer(const FloatBuffer& other);
  FloatBuffer(FloatBuffer&& other) noexcept;
  FloatBuffer& operator=(FloatBuffer other) noexcept;
  ~FloatBuffer();

  std::size_t size() const { return floats_.size(); }
  Device device() const { return floats_.device(); }
  operator Floats() { return floats_; }
  operator ConstFloats() const { return floats_; }
  Floats floats() { return floats_; }
  ConstFloats floats() const { return floats_; }

 private:
  Floats floats_;
  Pages pages_ = Pages::plain;
};

// to = from, wherever they lie; sizes must be equal.
void copy(ConstFloats from, Floats to);
// The same from bytes of the host, which need no alignment.
void copy_bytes(ByteView from, Floats to);
void zero(Floats floats);
std::vector<float> to_host(ConstFloats floats);

// Floats that lie on `device`: the given ones, or else a copy, which lives as long as this.
class Near {
 public:
  Near(ConstFloats floats, Device device);
  Near(const Near&) = delete;
  Near& operator=(const Near&) = delete;
  operator ConstFloats() const { return floats_; }

 private:
  FloatBuffer copy_;
  ConstFloats floats_;
};

// Until all that this thread has handed over is done. Throws Error when the device is lost.
void wait_for(Device device);
// Is it done?
bool is_idle(Device device);

// A point in what this thread hands over.
class Mark {
 public:
  Mark() = default;  // nothing: there is nothing to wait for
  static Mark here(Device device);
  // What the calling thread hands over from now on is done after that point.
  void join() const;

 private:
  struct Event;
  std::shared_ptr<Event> event_;
};

}  // namespace thinwire
