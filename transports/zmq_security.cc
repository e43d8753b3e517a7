#include <array>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq_security_internal.h"

namespace thinwire {
namespace {

constexpr const char* kZapAddress = "inproc://zeromq.zap.01";
constexpr const char* kZapDomain = "thinwire";
// A request is version, id, domain, address, identity, mechanism, and for CURVE the client's key.
constexpr std::size_t kZapParts = 7;

std::vector<zmq::message_t> receive_all(zmq::socket_t& socket) {
  std::vector<zmq::message_t> parts;
  do {
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait)) return {};
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return parts;
}

std::string z85(const zmq::message_t& key) {
  std::array<char, 41> text{};
  zmq_z85_encode(text.data(), key.data<std::uint8_t>(), key.size());
  return text.data();
}

}  // namespace

void set_client_curve(zmq::socket_t& socket, const ZmqKeys& keys, const std::string& hub_key) {
  if (keys.public_key.empty()) return;
  socket.set(zmq::sockopt::curve_serverkey, hub_key);
  socket.set(zmq::sockopt::curve_publickey, keys.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
}

void set_server_curve(zmq::socket_t& socket, const ZmqKeys& keys) {
  socket.set(zmq::sockopt::zap_domain, kZapDomain);
  if (keys.public_key.empty()) return;
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
}

Door::Door(zmq::context_t& context, const std::vector<std::string>& allowed, OnRefused on_refused)
    : socket_(context, zmq::socket_type::rep),
      allowed_(allowed.begin(), allowed.end()),
      on_refused_(std::move(on_refused)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(kZapAddress);
}

void Door::answer() {
  for (;;) {
    std::vector<zmq::message_t> request = receive_all(socket_);
    if (request.empty()) return;
    answer_one(std::move(request));
  }
}

void Door::answer_one(std::vector<zmq::message_t> request) {
  TW_CHECK(request.size() >= 2);  // libzmq itself asks
  const bool curve = request.size() == kZapParts && request[5].to_string_view() == "CURVE" &&
                     request[6].size() == 32;
  const std::string key = curve ? z85(request[6]) : "";
  const bool without = request.size() > 5 && request[5].to_string_view() == "NULL";
  const bool known = allowed_.empty() ? without : curve && allowed_.contains(key);
  if (!known) on_refused_(request.size() > 3 ? plain_ip(request[3].to_string()) : "", key);
  const std::array<std::string, 6> reply = {"1.0",
                                            request[1].to_string(),
                                            known ? "200" : "400",
                                            known ? "OK" : "this key is not on the hub's list",
                                            known ? key : "",
                                            ""};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    const bool last = i + 1 == reply.size();
    socket_.send(zmq::buffer(reply[i]), last ? zmq::send_flags::none : zmq::send_flags::sndmore);
  }
}

}  // namespace thinwire
