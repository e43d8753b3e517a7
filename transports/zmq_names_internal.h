// Names of hosts: what they stand for, and which addresses this machine has. ZeroMQ is given
// numbers alone: its own look-up holds up its I/O thread, and with it the end of the program, for
// as long as the DNS pleases. Any thread. Internal to transports/ and apps/.
#pragma once

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "transports/zmq_address_internal.h"

namespace thinwire {

// One look-up, in a thread of its own that nobody waits for. IP addresses need none.
class Lookup {
 public:
  explicit Lookup(const HostPort& address);

  bool wait(std::chrono::milliseconds most);  // is it done?
  // After wait() said so: tcp://IP:PORT in the order to be tried; empty when it failed.
  const std::vector<std::string>& addresses() const { return answer_.addresses; }
  // "the host 'NAME' cannot be resolved: WHY"; also before an answer.
  std::string failure() const;

 private:
  struct Answer {
    std::vector<std::string> addresses;
    std::string why;
  };
  static Answer look_up(const HostPort& address);

  std::string host_;
  Answer answer_;
  bool done_ = false;
  std::future<Answer> pending_;
};

bool is_ip_address(const std::string& host);

// The IP addresses of this machine's interfaces that are up, without zones.
std::vector<std::string> own_addresses();

// Does this machine have the address of that --listen? A name is looked up and replaced by the
// number; '*' and names of interfaces stay. Throws UsageError that says which host it is not.
std::string own_listen_address(const std::string& listen, std::chrono::milliseconds patience);

// tcp://IP:PORT that sites elsewhere can dial when a hub listens on all interfaces: without
// loopback and link-local addresses.
std::vector<std::string> addresses_for_others(int port);

}  // namespace thinwire
