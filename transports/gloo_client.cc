// A rank's end of the store at rank 0.
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/descriptor_internal.h"
#include "transports/gloo_socket_internal.h"
#include "transports/gloo_store_internal.h"
#include "transports/zmq_address_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{50};           // between attempts
constexpr milliseconds kAnswerMost{10'000};  // then rank 0 is gone or frozen
constexpr milliseconds kAttemptMost{2'000};  // of one connection

// Waits until the socket is ready for it, in small steps, so that a stop is noticed.
bool ready(int socket, short event, const Patience& patience) {
  while (!patience.over()) {
    patience.check();
    pollfd file{socket, event, 0};
    if (::poll(&file, 1, std::min(100, std::max(1, patience.left_ms()))) > 0) return true;
  }
  return false;
}

struct Dialled {
  Descriptor socket;
  std::string why;  // when there is none
};

Dialled connect_to(const addrinfo& address, const Patience& patience) {
  Dialled dialled;
  dialled.socket =
      Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int socket = dialled.socket.number();
  int error = 0;
  if (::connect(socket, address.ai_addr, address.ai_addrlen) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (ready(socket, POLLOUT, patience)) {
        ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
  }
  if (error == 0) return dialled;
  dialled.socket.close();
  dialled.why = std::strerror(error);
  return dialled;
}

Dialled dial(const std::string& host, int port, const Patience& patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int bad = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (bad != 0)
    return {Descriptor(), "the name cannot be resolved: " + std::string(::gai_strerror(bad))};
  Dialled dialled;
  for (const addrinfo* one = found; one != nullptr && !dialled.socket; one = one->ai_next) {
    dialled = connect_to(*one, patience);
  }
  ::freeaddrinfo(found);
  return dialled;
}

class StoreClient final : public KeyStore {
 public:
  StoreClient(Descriptor socket, std::string place, const std::atomic<bool>* stop)
      : socket_(std::move(socket)), place_(std::move(place)), stop_(stop) {}

  // False: the other end closed the connection. Throws UsageError when it is another version or no
  // thinwire at all.
  bool greet(const Patience& patience) {
    if (!say(greeting(), patience)) return false;
    while (true) {
      const auto taken = take_greeting(in_);
      if (!taken)
        throw UsageError("who answers at " + place_ + " is no rank 0 of ours: " + taken.why());
      if (*taken) return true;
      if (!hear(patience)) return false;
    }
  }

  void set(const std::string& key, const Bytes& value) override {
    if (ask({'S', key, value}).yes) return;
    throw Error("rank 0 at " + place_ + " does not take more values");
  }

  std::optional<Bytes> get(const std::string& key) override {
    Answer answer = ask({'G', key, {}});
    if (!answer.yes) return std::nullopt;
    return std::move(answer.value);
  }

  std::string place() const override { return place_; }
  bool is_new() const override { return true; }

  std::string own_address() const override {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char text[NI_MAXHOST] = "";
    ::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&address), &size);
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST);
    return plain_ip(text);
  }

 private:
  Answer ask(const Request& request) {
    const Patience patience(kAnswerMost, stop_);
    if (!say(encode(request), patience)) gone();
    while (true) {
      auto taken = take_answer(in_);
      if (!taken) throw Error("rank 0 at " + place_ + " sends " + taken.why());
      if (*taken) return std::move(**taken);
      if (!hear(patience)) gone();
    }
  }

  [[noreturn]] void gone() const {
    throw Error("rank 0 at " + place_ + " is gone: its connection closed while ranks met");
  }

  bool say(const std::string& text, const Patience& patience) {
    for (std::size_t said = 0; said < text.size();) {
      const ssize_t now =
          ::send(socket_.number(), text.data() + said, text.size() - said, MSG_NOSIGNAL);
      if (now > 0) said += static_cast<std::size_t>(now);
      if (now < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (now < 0 && !ready(socket_.number(), POLLOUT, patience)) return false;
    }
    return true;
  }

  bool hear(const Patience& patience) {
    if (!ready(socket_.number(), POLLIN, patience)) return false;
    char buffer[65'536];
    const ssize_t got = ::recv(socket_.number(), buffer, sizeof buffer, 0);
    if (got > 0) in_.append(buffer, static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  Descriptor socket_;
  const std::string place_;
  const std::atomic<bool>* stop_;
  std::string in_;
};

}  // namespace

std::unique_ptr<KeyStore> dial_store(const std::string& host, int port, const Patience& patience) {
  const std::string place =
      (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  std::string why;
  do {
    const Patience attempt = patience.at_most(kAttemptMost);
    Dialled dialled = dial(host, port, attempt);
    why = dialled.why;
    if (dialled.socket) {
      auto client =
          std::make_unique<StoreClient>(std::move(dialled.socket), place, patience.stop());
      if (client->greet(attempt)) return client;
      why = "it closes the connection or says nothing";
    }
    patience.pause(kPause);
  } while (!patience.over());
  throw Error("rank 0 cannot be reached at " + place + ": " + why +
              "; are MASTER_ADDR and MASTER_PORT those of rank 0, and does it run?");
}

}  // namespace thinwire::near
