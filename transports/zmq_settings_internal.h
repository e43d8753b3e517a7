// How every socket of the far link is set, sites' and hubs' alike. Internal to transports/.
#pragma once

#include <algorithm>
#include <chrono>
#include <zmq.hpp>

#include "transports/timeouts_internal.h"

namespace thinwire {

inline constexpr int kQueueMessages = 64;

inline void set_common(zmq::socket_t& socket, std::chrono::milliseconds peer_timeout) {
  const double peer = std::chrono::duration<double>(peer_timeout).count();
  const auto ms = [](double seconds) { return static_cast<int>(seconds * 1000.0); };
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::sndhwm, kQueueMessages);
  socket.set(zmq::sockopt::rcvhwm, kQueueMessages);
  socket.set(zmq::sockopt::handshake_ivl, ms(timeouts::kHandshake));
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
  const int patience_ms = ms(timeouts::heartbeat_patience(peer));
  socket.set(zmq::sockopt::heartbeat_ivl, ms(timeouts::heartbeat_each(peer)));
  socket.set(zmq::sockopt::heartbeat_timeout, patience_ms);
  socket.set(zmq::sockopt::heartbeat_ttl, std::min(patience_ms, 6'553'000));  // 16 bits of 0.1 s
  socket.set(zmq::sockopt::tcp_maxrt, patience_ms);
}

}  // namespace thinwire
