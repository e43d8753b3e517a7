#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq_address_internal.h"
#include "transports/zmq_settings_internal.h"
#include "transports/zmq_watch_internal.h"

namespace thinwire {
namespace {

constexpr const char* kEvents = "inproc://thinwire.hub.events";
// ZMQ_EVENT_HANDSHAKE_FAILED_AUTH is the Door's own refusal and counted there.
constexpr int kFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

std::string address_of(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  std::array<char, NI_MAXHOST> host{};
  auto* any = reinterpret_cast<sockaddr*>(&peer);
  if (::getpeername(descriptor, any, &size) != 0 ||
      ::getnameinfo(any, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  return plain_ip(host.data());
}

}  // namespace

ConnectionWatch::ConnectionWatch(zmq::context_t& context, zmq::socket_t& watched,
                                 OnFailed on_failed, std::function<void()> on_ended)
    : socket_(context, zmq::socket_type::pair),
      on_failed_(std::move(on_failed)),
      on_ended_(std::move(on_ended)) {
  const int events = kFailed | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(watched.handle(), kEvents, events) != 0) {
    throw Error(std::string("cannot watch the hub's socket: ") + zmq_strerror(zmq_errno()));
  }
  socket_.set(zmq::sockopt::linger, 0);
  // The I/O thread would wait for room; there always is.
  socket_.set(zmq::sockopt::rcvhwm, 0);
  socket_.connect(kEvents);
}

// An event is two parts: a 16-bit number with a 32-bit value, and the endpoint, here always ours.
void ConnectionWatch::read() {
  zmq::message_t head;
  zmq::message_t endpoint;
  while (socket_.recv(head, zmq::recv_flags::dontwait)) {
    if (head.more()) (void)socket_.recv(endpoint, zmq::recv_flags::none);
    if (head.size() != sizeof(std::uint16_t) + sizeof(std::uint32_t)) continue;
    std::uint16_t event = 0;
    std::int32_t value = 0;
    std::memcpy(&event, head.data(), sizeof event);
    std::memcpy(&value, static_cast<const char*>(head.data()) + sizeof event, sizeof value);
    take(event, value);
  }
}

void ConnectionWatch::take(int event, int value) {
  if (event == ZMQ_EVENT_ACCEPTED) {
    addresses_[value] = address_of(value);
    send_soon(value);
  } else if ((event & kFailed) != 0) {
    failed_ = true;
  } else if (event == ZMQ_EVENT_DISCONNECTED) {
    // One I/O thread reports the failure and then the end of the same connection.
    const auto known = addresses_.find(value);
    const std::string address = known == addresses_.end() ? "unknown" : known->second;
    if (known != addresses_.end()) addresses_.erase(known);
    std::exchange(failed_, false) ? on_failed_(address) : on_ended_();
  }
}

}  // namespace thinwire
