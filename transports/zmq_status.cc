#include <algorithm>
#include <cstring>
#include <optional>
#include <variant>
#include <vector>

#include "thinwire/error.h"
#include "transports/hub_messages_internal.h"
#include "transports/zmq_names_internal.h"
#include "transports/zmq_pieces_internal.h"
#include "transports/zmq_security_internal.h"
#include "transports/zmq_settings_internal.h"
#include "transports/zmq_status_internal.h"

namespace thinwire {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kEvents = "inproc://thinwire.status.events";
constexpr int kFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

void check(const ZmqStatusOptions& options) {
  const bool keys = !options.keys.public_key.empty();
  if (keys != !options.hub_key.empty()) {
    throw UsageError("--keys and --hub-key go together: own keys and the hub's public key");
  }
  if (keys && !is_zmq_key(options.hub_key)) {
    throw UsageError("--hub-key is no key: it has 40 characters, as `thinwire keygen` prints them");
  }
  if (!keys && !is_loopback(parse_address(options.hub, AddressUse::dial))) {
    throw UsageError(
        "a hub that is not on this machine is asked with keys: --keys FILE --hub-key "
        "KEY");
  }
}

std::string why_refused(const ZmqStatusOptions& options, int event) {
  const std::string at = "the hub at " + options.hub;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    return at + " refused this key; is " + options.keys.public_key + " on its list?";
  }
  return at + (options.keys.public_key.empty()
                   ? " closed the connection; it may want keys (--keys, --hub-key)"
                   : " closed the connection; is --hub-key its public key, and does it use keys?");
}

// The event's number, 0 when there is none.
int next_event(zmq::socket_t& events) {
  zmq::message_t head;
  zmq::message_t endpoint;
  if (!events.recv(head, zmq::recv_flags::dontwait)) return 0;
  if (head.more()) (void)events.recv(endpoint, zmq::recv_flags::none);
  std::uint16_t event = 0;
  std::memcpy(&event, head.data(), std::min(head.size(), sizeof event));
  return event;
}

// Nothing while the answer is not whole.
std::optional<std::string> read_answer(const ZmqStatusOptions& options, zmq::socket_t& socket,
                                       hub::Joiner& joiner) {
  zmq::message_t answer;
  static_cast<void>(socket.recv(answer, zmq::recv_flags::none));
  ByteView bytes(static_cast<const std::byte*>(answer.data()), answer.size());
  const std::string at = "the hub at " + options.hub;
  std::optional<hub::GrowingBytes> whole;
  if (hub::is_piece(bytes)) {
    auto joined = joiner.take(bytes);
    if (!joined) throw Error(at + " answered with " + joined.why());
    if (!*joined) return std::nullopt;
    whole = std::move(*joined);
    bytes = whole->view();
  }
  auto message = hub::decode(bytes);
  if (!message) throw Error(at + " answered what is no message: " + message.why());
  if (const auto* refused = std::get_if<hub::Refused>(&*message)) {
    throw Error(at + " refused: " + refused->why);
  }
  if (auto* status = std::get_if<hub::Status>(&*message)) return std::move(status->json);
  throw Error(at + " answered another question");
}

}  // namespace

std::string ask_zmq_status(const ZmqStatusOptions& options) {
  check(options);
  const auto end = Clock::now() + options.patience;
  Lookup lookup(parse_address(options.hub, AddressUse::dial));
  if (!lookup.wait(options.patience) || lookup.addresses().empty()) throw Error(lookup.failure());
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  zmq::socket_t events(context, zmq::socket_type::pair);
  set_common(socket, options.patience);
  set_client_curve(socket, options.keys, options.hub_key);
  if (zmq_socket_monitor(socket.handle(), kEvents, kFailed) != 0) {
    throw Error(std::string("cannot watch a socket: ") + zmq_strerror(zmq_errno()));
  }
  events.set(zmq::sockopt::linger, 0);
  events.connect(kEvents);
  socket.connect(lookup.addresses().front());
  const Bytes question = hub::encode(hub::AskStatus{});
  socket.send(zmq::buffer(question.data(), question.size()), zmq::send_flags::none);

  hub::Joiner joiner(2 * hub::kStatusMax);
  int failed = 0;
  int times = 0;
  while (Clock::now() < end) {
    std::vector<zmq::pollitem_t> items = {{socket.handle(), 0, ZMQ_POLLIN, 0},
                                          {events.handle(), 0, ZMQ_POLLIN, 0}};
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    try {
      zmq::poll(items, std::max(left, milliseconds(0)));
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
      throw Error("interrupted while the hub at " + options.hub + " was asked");
    }
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
      if (auto answer = read_answer(options, socket, joiner)) return std::move(*answer);
    }
    for (int event = next_event(events); event != 0; event = next_event(events)) {
      failed = event;
      ++times;
    }
    // A hub that is just going closes a connection too: ask again.
    if (failed != 0 && (failed != ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || times >= 3)) break;
  }
  if (failed != 0) throw Error(why_refused(options, failed));
  throw Error("no hub answers at " + options.hub + " within " +
              std::to_string(options.patience.count() / 1000) +
              " s; is it running, and is that its "
              "address?");
}

}  // namespace thinwire
