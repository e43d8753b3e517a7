// Who may talk to a hub: CURVE keys, the files they live in, and the door where strangers are
// turned away. Functions from any thread; a Door belongs to the thread that polls it. Internal to
// transports/ and apps/.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "transports/zmq.h"
#include "transports/zmq_address_internal.h"

namespace thinwire {

bool is_zmq_key(const std::string& text);  // 40 characters of Z85

// Two lines, public and secret key, readable by their owner alone. Writing never replaces a file;
// reading refuses one that others may read. Errors name the file and what to do.
void write_zmq_keys(const std::string& path, const ZmqKeys& keys);
ZmqKeys read_zmq_keys(const std::string& path);

struct AllowedKey {
  std::string key;
  std::string name;  // empty when the list gives none

  bool operator==(const AllowedKey&) const = default;
};

// One public key a line, a name behind it if wanted; '#' begins a comment. (A key may hold a '#',
// but none begins with one: it would stand for more than 32 bits.) `origin` names the text in
// errors.
std::vector<AllowedKey> parse_allow_list(const std::string& text, const std::string& origin);
std::vector<AllowedKey> read_allow_list(const std::string& path);

// For a socket that is to dial `hub_key` as `keys`, or to accept what the Door lets in. Without
// keys: no CURVE.
void set_client_curve(zmq::socket_t& socket, const ZmqKeys& keys, const std::string& hub_key);
void set_server_curve(zmq::socket_t& socket, const ZmqKeys& keys);

// Answers the authentication requests (ZAP, rfc.zeromq.org/spec/27) of all servers of a context; to
// be made before their sockets. Lets the allowed keys in and passes each on as the "User-Id" of its
// messages. With no key allowed it lets in those that come without one: ZeroMQ asks even then, and
// an asked server turns away the protocols before ZMTP 3, which random bytes can pass for.
class Door {
 public:
  using OnRefused = std::function<void(const std::string& address, const std::string& key)>;

  Door(zmq::context_t& context, const std::vector<std::string>& allowed, OnRefused on_refused);

  zmq::socket_t& socket() { return socket_; }
  void answer();  // all requests that wait; never blocks

 private:
  void answer_one(std::vector<zmq::message_t> request);

  zmq::socket_t socket_;
  std::set<std::string> allowed_;
  OnRefused on_refused_;
};

}  // namespace thinwire
