// Asks a hub how its run is going. Any thread. Internal to transports/ and apps/.
#pragma once

#include <chrono>
#include <string>

#include "transports/zmq.h"

namespace thinwire {

struct ZmqStatusOptions {
  std::string hub;      // tcp://host:port
  std::string hub_key;  // the hub's public key; may be empty for a loopback address alone
  ZmqKeys keys;         // on the hub's list of sites
  std::chrono::milliseconds patience{5'000};
};

// The hub's answer, JSON as docs/far_link.md lists it. Throws UsageError for settings that do not
// go together, Error that names the hub when it refuses or does not answer.
std::string ask_zmq_status(const ZmqStatusOptions& options);

}  // namespace thinwire
