// A hub in a thread of its own, and clients that speak to it message by message or byte by byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <zmq.hpp>

#include "transports/hub_messages_internal.h"
#include "transports/zmq.h"
#include "transports/zmq_pieces_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire::test {

using std::chrono::milliseconds;

inline ZmqHubOptions any_port(ZmqHubOptions options = {}) {
  if (options.listen == ZmqHubOptions{}.listen) options.listen = "tcp://127.0.0.1:*";
  return options;
}

class RunningHub {
 public:
  explicit RunningHub(ZmqHubOptions options = {})
      : hub_(any_port(std::move(options))), thread_([this] { hub_.run(); }) {}
  ~RunningHub() { stop(); }

  ZmqHub& operator*() { return hub_; }
  ZmqHub* operator->() { return &hub_; }
  void stop() {
    hub_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  ZmqHub hub_;
  std::thread thread_;
};

// Bytes of that text.
inline Bytes bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

class HubClient {
 public:
  explicit HubClient(const std::string& address, const ZmqKeys& keys = {},
                     const std::string& hub_key = {}, int rcvhwm = 1000)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::ipv6, true);
    socket_.set(zmq::sockopt::rcvhwm, rcvhwm);
    set_client_curve(socket_, keys, hub_key);
    socket_.connect(address);
  }

  void say(const hub::Message& message) {
    Bytes bytes = hub::encode(message);
    if (bytes.size() <= hub::kPieceBytes) return say_bytes(bytes);
    for (hub::Cutter cutter(++cut_, std::move(bytes)); !cutter.done();)
      say_bytes(cutter.next().copy());
  }
  void say_bytes(const Bytes& bytes) {
    socket_.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::none);
  }
  void say_bytes(const std::string& bytes, bool more = false) {
    socket_.send(zmq::buffer(bytes), more ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

  // The next message, put together when it comes in pieces.
  std::optional<hub::Message> hear(milliseconds patience) {
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(patience.count()));
    std::optional<hub::GrowingBytes> whole;
    zmq::message_t heard;
    ByteView bytes;
    do {
      if (!socket_.recv(heard)) return std::nullopt;
      bytes = {static_cast<const std::byte*>(heard.data()), heard.size()};
      if (!hub::is_piece(bytes)) break;
      auto joined = joiner_.take(bytes);
      EXPECT_TRUE(joined) << joined.why();
      if (!joined) return std::nullopt;
      if ((whole = std::move(*joined))) bytes = whole->view();
    } while (!whole);
    auto message = hub::decode(bytes);
    EXPECT_TRUE(message) << message.why();
    return message ? std::optional(std::move(*message)) : std::nullopt;
  }

  // The next message of that kind; others before it are passed over.
  template <class Kind>
  std::optional<Kind> wait_for(milliseconds patience = milliseconds(10'000)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0) return std::nullopt;
      std::optional<hub::Message> message = hear(left);
      if (!message) return std::nullopt;
      if (auto* wanted = std::get_if<Kind>(&*message)) return std::move(*wanted);
    }
  }

  nlohmann::json status() {
    say(hub::AskStatus{});
    const auto answer = wait_for<hub::Status>();
    EXPECT_TRUE(answer) << "no status";
    return answer ? nlohmann::json::parse(answer->json) : nlohmann::json::object();
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  hub::Joiner joiner_{std::size_t{1} << 30};
  std::uint64_t cut_ = 0;
};

inline hub::Hello hello_of(const std::string& site) {
  hub::Hello hello;
  hello.run = "run";
  hello.site = site;
  hello.process = std::hash<std::string>{}(site) | 1;
  hello.agreement = 7;
  hello.agreed = "method = distro\n";
  return hello;
}

inline hub::Slot slot_of(std::uint64_t round) {
  hub::Slot slot;
  slot.round.number = round;
  return slot;
}

// How often the hub refused something for that reason.
inline int refused(const nlohmann::json& status, const std::string& reason) {
  return status.contains("refused") ? status["refused"].value(reason, 0) : -1;
}

// A plain TCP connection to the port of an address like tcp://127.0.0.1:5555.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    file_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(file_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0) << address;
  }
  ~RawClient() { ::close(file_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& bytes) {
    (void)!::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // All that comes until the other end closes or nothing comes for so long.
  std::string read(milliseconds patience) {
    std::string text;
    pollfd one{file_, POLLIN, 0};
    char buffer[4096];
    while (::poll(&one, 1, static_cast<int>(patience.count())) > 0) {
      const ssize_t got = ::recv(file_, buffer, sizeof buffer, 0);
      closed_ = got <= 0;
      if (closed_) break;
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  bool closed_by_peer(milliseconds patience) {
    (void)read(patience);
    return closed_;
  }

 private:
  int file_ = -1;
  bool closed_ = false;
};

}  // namespace thinwire::test
