// The store at rank 0.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <thread>

#include "thinwire/log.h"
#include "transports/descriptor_internal.h"
#include "transports/gloo_socket_internal.h"
#include "transports/gloo_store_internal.h"
#include "transports/zmq_address_internal.h"

namespace thinwire::near {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnectionsMax = 4096;
constexpr auto kGreetingPatience = std::chrono::seconds(10);
// How often silent strangers are looked for, and the pause where there is no descriptor or memory.
constexpr std::chrono::milliseconds kTick{500};

struct Connection {
  Descriptor socket;
  std::string peer;
  Clock::time_point since;
  bool greeted = false;
  bool ends = false;  // when all is said
  bool more = false;  // another request may be in `in`
  std::string in;
  std::string out;
};

Descriptor listen_on(int port) {
  Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool six = static_cast<bool>(socket);
  if (!six) socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (six) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto* any = reinterpret_cast<sockaddr_in6*>(&address);
    any->sin6_family = AF_INET6;
    any->sin6_port = htons(static_cast<std::uint16_t>(port));
    size = sizeof *any;
  } else {
    auto* any = reinterpret_cast<sockaddr_in*>(&address);
    any->sin_family = AF_INET;
    any->sin_port = htons(static_cast<std::uint16_t>(port));
  }
  if (::bind(socket.number(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket.number(), 1024) != 0) {
    throw Error("rank 0 cannot listen on port " + std::to_string(port) + ": " +
                std::strerror(errno) + "; set MASTER_PORT to a free port, the same for all ranks");
  }
  return socket;
}

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
                sizeof text);
  } else {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text,
                sizeof text);
  }
  return text;
}

}  // namespace

struct StoreServer::Body {
  explicit Body(int port)
      : listener(listen_on(port)), stop(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!stop) throw Error("the store cannot be opened: the process has no descriptor left");
    thread = std::jthread([this] { run(); });
  }
  ~Body() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(stop.number(), &one, sizeof one));
    thread.join();
  }

  // Whatever goes wrong with memory, this thread serves on.
  void run() {
    for (;;) {
      try {
        if (!turn()) return;
      } catch (const std::exception&) {
        std::this_thread::sleep_for(kTick);
      }
    }
  }

  // False: the store goes.
  bool turn() {
    const bool listens = Clock::now() >= listens_from;
    std::vector<pollfd> files{{stop.number(), POLLIN, 0},
                              {listens ? listener.number() : -1, POLLIN, 0}};
    auto wait = kTick;
    for (const Connection& one : connections) {
      // Who does not take the answer is not heard, so nobody fills the memory.
      short want = POLLOUT;
      if (one.out.empty()) want = one.more ? 0 : POLLIN;
      if (want == 0) wait = wait.zero();
      files.push_back({one.socket.number(), want, 0});
    }
    ::poll(files.data(), files.size(), static_cast<int>(wait.count()));
    if (files[0].revents != 0) return false;
    std::size_t at = 2;
    for (auto one = connections.begin(); one != connections.end(); ++at) {
      const bool stays = try_to_serve(*one, files[at].revents);
      one = stays ? std::next(one) : connections.erase(one);
    }
    if (files[1].revents != 0) accept_all();
    return true;
  }

  void accept_all() {
    for (;;) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      Descriptor socket(::accept4(listener.number(), reinterpret_cast<sockaddr*>(&address), &size,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) {
        // Those who wait there would wake this thread all the time.
        const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full) listens_from = Clock::now() + kTick;
        return;
      }
      if (connections.size() >= kConnectionsMax) continue;
      Connection& one = connections.emplace_back();
      one.socket = std::move(socket);
      one.peer = plain_ip(text_of(address));
      one.since = Clock::now();
      one.out = greeting();
    }
  }

  bool try_to_serve(Connection& one, short events) {
    try {
      return serve(one, events);
    } catch (const std::exception&) {
      return false;  // no memory for it
    }
  }

  // False: the connection is over.
  bool serve(Connection& one, short events) {
    if (!one.greeted && Clock::now() - one.since > kGreetingPatience) return false;
    if (one.out.empty() && (events & (POLLIN | POLLHUP | POLLERR))) {
      char buffer[65'536];
      const ssize_t got = ::recv(one.socket.number(), buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
      if (got > 0 && !one.ends) one.in.append(buffer, static_cast<std::size_t>(got));
    }
    if (!one.ends && one.out.empty()) answer(one);
    while (!one.out.empty()) {
      const ssize_t gone =
          ::send(one.socket.number(), one.out.data(), one.out.size(), MSG_NOSIGNAL);
      if (gone < 0 && errno == EINTR) continue;
      if (gone < 0) return errno == EAGAIN;
      one.out.erase(0, static_cast<std::size_t>(gone));
    }
    return !one.ends;
  }

  // One request: the next one when its answer is on its way.
  void answer(Connection& one) {
    one.more = false;
    if (!one.greeted) {
      const auto taken = take_greeting(one.in);
      if (!taken) return refuse(one, taken.why());
      if (!*taken) return;
      one.greeted = true;
    }
    const auto taken = take_request(one.in);
    if (!taken) return refuse(one, "it sends " + taken.why());
    if (!*taken) return;
    one.more = true;
    answer(one, **taken);
  }

  void refuse(Connection& one, const std::string& why) {
    log_warn("near: refused a connection from " + one.peer + ": " + why);
    one.ends = true;
  }

  void answer(Connection& one, const Request& request) {
    const auto found = values.find(request.key);
    if (request.verb == 'G') {
      one.out +=
          found == values.end() ? encode_answer(false, {}) : encode_answer(true, found->second);
      return;
    }
    const std::size_t before = found == values.end() ? 0 : found->second.size();
    const std::size_t after = bytes - before + request.value.size();
    if (after > kStoreMax || (found == values.end() && values.size() >= kKeysMax)) {
      one.out += encode_answer(false, {});
      return;
    }
    bytes = after;
    values[request.key] = request.value;
    one.out += encode_answer(true, {});
  }

  Descriptor listener;
  Descriptor stop;
  Clock::time_point listens_from{};
  std::list<Connection> connections;
  std::map<std::string, Bytes> values;
  std::size_t bytes = 0;
  std::jthread thread;  // the only one that uses the above after the start
};

StoreServer::StoreServer(int port) : body_(std::make_unique<Body>(port)) {}
StoreServer::~StoreServer() = default;

int StoreServer::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(body_->listener.number(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace thinwire::near
