// How every socket of the far link is set, sites' and hubs' alike. Internal to transports/.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <zmq.hpp>

#include "transports/timeouts_internal.h"
#include "transports/zmq_pieces_internal.h"

namespace thinwire {

inline constexpr int kQueueMessages = 64;
// Of what the sockets carry: a piece, in a frame of CURVE.
inline constexpr std::int64_t kWireMax = hub::kPieceHead + hub::kPieceBytes + 64;

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
  // An announced length above it ends the connection before anything is allocated.
  socket.set(zmq::sockopt::maxmsgsize, kWireMax);
  const int patience_ms = ms(timeouts::heartbeat_patience(peer));
  socket.set(zmq::sockopt::heartbeat_ivl, ms(timeouts::heartbeat_each(peer)));
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
