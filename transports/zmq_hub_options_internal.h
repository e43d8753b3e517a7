// What a hub is asked to do, judged before any socket is made. Pure. Internal to transports/.
#pragma once

#include "transports/zmq.h"

namespace thinwire {

// The options with an address that ZeroMQ can bind. Throws UsageError naming the settings that are
// wrong or contradict each other, by their flags.
ZmqHubOptions checked(ZmqHubOptions options);

}  // namespace thinwire
