#include "apps/keygen_command.h"

#include <iostream>

#include "transports/zmq_security_internal.h"

namespace thinwire::app {

void run_keygen(const std::string& file) {
  const ZmqKeys keys = make_zmq_keys();
  write_zmq_keys(file, keys);
  std::cout << keys.public_key << "\n";
}

}  // namespace thinwire::app
