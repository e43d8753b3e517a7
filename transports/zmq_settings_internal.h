// How every socket of the far link is set, sites' and hubs' alike. Internal to transports/.
#pragma once

#include <algorithm>
#include <chrono>
#include <zmq.hpp>

namespace thinwire {

inline constexpr int kQueueMessages = 64;
inline constexpr int kHandshakeMs = 10'000;  // then a half-open stranger is cut off

inline void set_common(zmq::socket_t& socket, std::chrono::milliseconds peer_timeout) {
  const int timeout_ms = static_cast<int>(peer_timeout.count());
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::sndhwm, kQueueMessages);
  socket.set(zmq::sockopt::rcvhwm, kQueueMessages);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 30);
  // ZeroMQ's heartbeats keep NAT tables warm and clear dead connections away. They count whole
  // messages only, and one of 64 MB takes a minute at 10 Mbit/s: judging who is dead is not their
  // business, and their patience is long.
  const int patience_ms = std::max(60'000, 6 * timeout_ms);
  socket.set(zmq::sockopt::heartbeat_ivl, std::clamp(timeout_ms / 3, 100, 5'000));
  socket.set(zmq::sockopt::heartbeat_timeout, patience_ms);
  socket.set(zmq::sockopt::heartbeat_ttl, std::min(patience_ms, 6'553'000));  // 16 bits of 0.1 s
  socket.set(zmq::sockopt::tcp_maxrt, patience_ms);
}

}  // namespace thinwire
