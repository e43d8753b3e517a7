// How many bytes one connection has inside ZeroMQ, which itself bounds messages only. What is
// inside leaves in its order, so the bound is how far an urgent message can be behind. Internal to
// transports/.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <zmq.hpp>

#include "transports/shared_bytes_internal.h"

namespace thinwire {

class Flow {
 public:
  // `wake_descriptor` is an eventfd that outlives the ZeroMQ context, whose thread writes to it.
  explicit Flow(int wake_descriptor);

  // May more be handed to ZeroMQ? When not, the descriptor is written as soon as there is room.
  bool has_room();
  bool empty() const { return inside_->bytes == 0; }
  // A message that owns these bytes and is counted until they have left.
  zmq::message_t wrap(hub::SharedBytes bytes);

 private:
  struct Inside {  // shared with the I/O thread
    std::atomic<std::size_t> bytes{0};
    std::atomic<bool> awaited{false};
    int wake_descriptor = -1;
  };
  struct Parcel {
    hub::SharedBytes bytes;
    std::shared_ptr<Inside> inside;
  };
  static void left(void* data, void* hint);

  std::shared_ptr<Inside> inside_;
};

}  // namespace thinwire
