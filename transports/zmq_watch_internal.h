// Sees the connections of a listening socket that fail before they become peers: no key where one
// is needed, another protocol, a handshake never finished; and that one of the others has ended,
// though not whose it was. Belongs to the thread of the watched socket. Internal to transports/.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <zmq.hpp>

namespace thinwire {

class ConnectionWatch {
 public:
  // The address is the IP of the other end, "unknown" when it had gone before it could be asked.
  using OnFailed = std::function<void(const std::string& address)>;

  ConnectionWatch(zmq::context_t& context, zmq::socket_t& watched, OnFailed on_failed,
                  std::function<void()> on_ended);

  zmq::socket_t& socket() { return socket_; }
  void read();  // all events that wait; never blocks

 private:
  void take(int event, int value);

  zmq::socket_t socket_;
  OnFailed on_failed_;
  std::function<void()> on_ended_;
  std::map<int, std::string> addresses_;  // by descriptor, of connections that are open
  bool failed_ = false;                   // a handshake did; the next disconnection says whose
};

}  // namespace thinwire
