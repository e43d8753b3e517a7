// A few lines of HTTP for Prometheus, made to be polled beside ZeroMQ sockets: nothing blocks, a
// request is at most 4 KiB, a connection lasts at most 2 s, and there are at most 16 of them, so
// that a slow or hostile reader costs the hub nothing. One thread. Internal to transports/.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <vector>

#include "transports/descriptor_internal.h"

namespace thinwire {

class MetricsServer {
 public:
  // "127.0.0.1:9464", "[::1]:9464", ":9464" (loopback). Throws Error naming what cannot be bound,
  // UsageError for what is no address.
  explicit MetricsServer(const std::string& address);

  std::string address() const { return address_; }  // with the port that was bound

  // What to wait for; then work() whenever one of them is ready or next_deadline() has passed.
  void wishes(std::vector<pollfd>& files) const;
  double next_deadline() const;  // infinity when nobody is connected
  void work(double now, const std::function<std::string()>& text);

 private:
  struct Connection {
    Descriptor file;
    double deadline = 0.0;
    std::string request = {};
    std::string reply = {};  // empty until the request is whole
    std::size_t sent = 0;
  };

  void accept_all(double now);
  // False: the connection is over.
  static bool advance(Connection& connection, const std::function<std::string()>& text);
  static bool read(Connection& connection, const std::function<std::string()>& text);

  std::string address_;
  Descriptor listener_;
  double paused_until_ = 0.0;  // no accept before: the process has no descriptor left
  double now_ = 0.0;
  std::vector<Connection> connections_;
};

}  // namespace thinwire
