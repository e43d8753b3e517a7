// How every socket of the far link is set, sites' and hubs' alike. Internal to transports/.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <zmq.hpp>

#include "transports/zmq_pieces_internal.h"

namespace thinwire {

inline constexpr int kQueueMessages = 64;
// Of what the sockets carry: a piece, in a frame of CURVE.
inline constexpr std::int64_t kWireMax = hub::kPieceHead + hub::kPieceBytes + 64;
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
  // An announced length above it ends the connection before anything is allocated.
  socket.set(zmq::sockopt::maxmsgsize, kWireMax);
  // ZeroMQ's heartbeats keep NAT tables warm and clear dead connections away. They count whole
  // pieces only: judging who is dead is not their business, and their patience is long.
  const int patience_ms = std::max(60'000, 6 * timeout_ms);
  socket.set(zmq::sockopt::heartbeat_ivl, std::clamp(timeout_ms / 3, 100, 5'000));
  socket.set(zmq::sockopt::heartbeat_timeout, patience_ms);
  socket.set(zmq::sockopt::heartbeat_ttl, std::min(patience_ms, 6'553'000));  // 16 bits of 0.1 s
  socket.set(zmq::sockopt::tcp_maxrt, patience_ms);
}

// Of a connection's descriptor, as the socket's monitor tells it: the kernel takes few bytes that
// it cannot send at once, so that an urgent message is not behind megabytes of them. Unlike a bound
// on the send buffer (ZMQ_SNDBUF) it leaves the kernel all bytes that a long fat line has under
// way.
inline void send_soon(int descriptor) {
  const int unsent = 128 << 10;
  // It may be closed already, and is then no matter.
  static_cast<void>(
      ::setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent));
}

}  // namespace thinwire
