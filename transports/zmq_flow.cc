#include <unistd.h>

#include <cstdint>
#include <utility>

#include "transports/zmq_flow_internal.h"

namespace thinwire {
namespace {

// With the unsent bytes in the kernel (send_soon) about 1.1 s of a 10 Mbit/s line. It costs a long
// fat line nothing: these are bytes that wait, those under way in the line are the kernel's.
constexpr std::size_t kInside = 1u << 20;

}  // namespace

Flow::Flow(int wake_descriptor) : inside_(std::make_shared<Inside>()) {
  inside_->wake_descriptor = wake_descriptor;
}

bool Flow::has_room() {
  if (inside_->bytes < kInside) return true;
  // Before the bytes are looked at again, so that the I/O thread sees it when it makes room after.
  inside_->awaited = true;
  return inside_->bytes < kInside;
}

zmq::message_t Flow::wrap(hub::SharedBytes bytes) {
  auto parcel = std::make_unique<Parcel>(Parcel{std::move(bytes), inside_});
  inside_->bytes += parcel->bytes.size();
  auto* data = const_cast<std::byte*>(parcel->bytes.data());  // ZeroMQ only reads it
  zmq::message_t message(data, parcel->bytes.size(), left, parcel.get());
  static_cast<void>(parcel.release());  // left() owns it now
  return message;
}

// Some room at a time: not every piece wakes the thread that waits.
void Flow::left(void*, void* hint) {
  const std::unique_ptr<Parcel> parcel(static_cast<Parcel*>(hint));
  Inside& inside = *parcel->inside;
  if ((inside.bytes -= parcel->bytes.size()) > kInside / 4 * 3) return;
  if (!inside.awaited.exchange(false)) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(inside.wake_descriptor, &one, sizeof one));
}

}  // namespace thinwire
