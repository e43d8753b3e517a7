#include <atomic>
#include <cstring>
#include <utility>

#include "transports/timeouts_internal.h"
#include "transports/zmq_address_internal.h"
#include "transports/zmq_dealer_internal.h"
#include "transports/zmq_security_internal.h"
#include "transports/zmq_settings_internal.h"

namespace thinwire {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kWatched = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                         ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                         ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

constexpr const char* kStrange =
    "the handshake failed; is the hub's key right, and do both ends use keys or neither?";

// A name in the hosts file is there at once.
constexpr milliseconds kAtOnce{20};

// The attempt itself is given up a little later, for a reason that says less.
milliseconds lookup_patience(milliseconds peer_timeout) {
  const double peer = std::chrono::duration<double>(peer_timeout).count();
  return milliseconds(static_cast<int>(800.0 * timeouts::dial_patience(peer)));
}

std::string monitor_address() {
  static std::atomic<std::uint64_t> count = 0;
  return "inproc://thinwire-site-monitor-" + std::to_string(++count);
}

}  // namespace

Dealer::Dealer(zmq::context_t& context, const ZmqLinkOptions& options, const std::string& address)
    : socket_(context, zmq::socket_type::dealer),
      monitor_(context, zmq::socket_type::pair),
      lookup_(parse_address(address, AddressUse::dial)),
      lookup_end_(Clock::now() + lookup_patience(options.peer_timeout)) {
  set_common(socket_, options.peer_timeout);
  socket_.set(zmq::sockopt::immediate, true);
  socket_.set(zmq::sockopt::reconnect_ivl, -1);  // another attempt is another Dealer
  set_client_curve(socket_, options.keys, options.hub_key);
  const std::string events = monitor_address();
  if (zmq_socket_monitor(socket_.handle(), events.c_str(), kWatched) != 0) throw zmq::error_t();
  monitor_.set(zmq::sockopt::linger, 0);
  monitor_.connect(events);
  if (lookup_.wait(kAtOnce) && !lookup_.addresses().empty()) connect_next();
}

Dealer::~Dealer() { zmq_socket_monitor(socket_.handle(), nullptr, 0); }

std::vector<DealerEvent> Dealer::take_events() {
  std::vector<DealerEvent> events;
  if (tried_ == 0) look(events);
  for (;;) {
    zmq::message_t head;
    zmq::message_t address;
    if (!monitor_.recv(head, zmq::recv_flags::dontwait)) return events;
    if (head.more()) static_cast<void>(monitor_.recv(address, zmq::recv_flags::dontwait));
    if (head.size() < sizeof(std::uint16_t) + sizeof(std::int32_t)) continue;
    std::uint16_t event = 0;
    std::int32_t value = 0;
    std::memcpy(&event, head.data(), sizeof event);
    std::memcpy(&value, head.data<char>() + sizeof event, sizeof value);
    judge(event, value, events);
  }
}

void Dealer::connect_next() { socket_.connect(lookup_.addresses()[tried_++]); }

void Dealer::look(std::vector<DealerEvent>& events) {
  const bool done = lookup_.wait(milliseconds(0));
  if (done && !lookup_.addresses().empty()) return connect_next();
  if (done || Clock::now() >= lookup_end_) {
    events.push_back({DealerEvent::What::lost, lookup_.failure()});
  }
}

void Dealer::judge(int event, int value, std::vector<DealerEvent>& events) {
  using What = DealerEvent::What;
  switch (event) {
    case ZMQ_EVENT_CONNECTED:
      return send_soon(value);
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      shaken_ = true;
      return events.push_back({What::connected, ""});
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return events.push_back({What::turned_away, "it does not know the key of this site (status " +
                                                      std::to_string(value) + ")"});
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return events.push_back({What::strange, kStrange});
    case ZMQ_EVENT_DISCONNECTED:
      if (shaken_) return events.push_back({What::lost, "the connection was closed"});
      return events.push_back({What::strange, kStrange});
    default:
      if (!shaken_ && tried_ < lookup_.addresses().size()) return connect_next();
      return events.push_back({What::lost, "no connection: nothing listens there"});
  }
}

}  // namespace thinwire
