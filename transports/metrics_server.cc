#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>

#include "thinwire/error.h"
#include "transports/metrics_server_internal.h"
#include "transports/zmq_address_internal.h"

namespace thinwire {
namespace {

constexpr std::size_t kRequestMax = 4096;  // bytes
constexpr double kPatience = 2.0;          // s, for a whole connection
constexpr std::size_t kConnectionsMax = 16;
constexpr double kPause = 1.0;  // s without accept when descriptors ran out

std::string reply_of(const std::string& status, const std::string& body, bool with_body) {
  return "HTTP/1.1 " + status +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + (with_body ? body : "");
}

// The whole request is known to have arrived; only its first line matters.
std::string answer(std::string_view request, const std::function<std::string()>& text) {
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const std::size_t space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  if (method != "GET" && method != "HEAD") {
    return reply_of("405 Method Not Allowed", "GET /metrics\n", true);
  }
  std::string_view path = space == line.npos ? "" : line.substr(space + 1);
  path = path.substr(0, path.find_first_of(" ?"));
  if (path != "/metrics" && path != "/") {
    return reply_of("404 Not Found", "GET /metrics\n", method == "GET");
  }
  return reply_of("200 OK", text(), method == "GET");
}

Descriptor listen_on(const std::string& address, const HostPort& parsed) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int bad = ::getaddrinfo(parsed.host == "*" ? nullptr : parsed.host.c_str(),
                                std::to_string(parsed.port).c_str(), &hints, &found);
  if (bad != 0) throw Error("metrics address " + address + ": " + ::gai_strerror(bad));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int trouble = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Descriptor file(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (file) ::setsockopt(file.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (file && ::bind(file.number(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(file.number(), static_cast<int>(kConnectionsMax)) == 0) {
      return file;
    }
    trouble = errno;
  }
  throw Error("cannot serve metrics on " + address + ": " +
              std::generic_category().message(trouble) + "; choose another address");
}

int bound_port(const Descriptor& listener) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

MetricsServer::MetricsServer(const std::string& address) {
  HostPort parsed = parse_host_port(address, AddressUse::listen);
  listener_ = listen_on(address, parsed);
  parsed.port = bound_port(listener_);
  address_ = to_text(parsed).substr(std::string_view("tcp://").size());
}

void MetricsServer::wishes(std::vector<pollfd>& files) const {
  if (now_ >= paused_until_) files.push_back({listener_.number(), POLLIN, 0});
  for (const Connection& one : connections_) {
    files.push_back(
        {one.file.number(), static_cast<short>(one.reply.empty() ? POLLIN : POLLOUT), 0});
  }
}

double MetricsServer::next_deadline() const {
  double next = now_ < paused_until_ ? paused_until_ : std::numeric_limits<double>::infinity();
  for (const Connection& one : connections_) next = std::min(next, one.deadline);
  return next;
}

void MetricsServer::work(double now, const std::function<std::string()>& text) {
  now_ = now;
  accept_all(now);
  std::vector<Connection> going_on;
  for (Connection& one : connections_) {
    if (now < one.deadline && advance(one, text)) going_on.push_back(std::move(one));
  }
  connections_ = std::move(going_on);
}

void MetricsServer::accept_all(double now) {
  while (now >= paused_until_) {
    Descriptor file(::accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!file) {
      const bool exhausted =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (exhausted) paused_until_ = now + kPause;
      return;
    }
    if (connections_.size() < kConnectionsMax) {
      connections_.push_back({std::move(file), now + kPatience});
    }
  }
}

bool MetricsServer::advance(Connection& connection, const std::function<std::string()>& text) {
  if (connection.reply.empty() && !read(connection, text)) return false;
  while (connection.sent < connection.reply.size()) {
    const ssize_t wrote =
        ::send(connection.file.number(), connection.reply.data() + connection.sent,
               connection.reply.size() - connection.sent, MSG_NOSIGNAL);
    if (wrote < 0) return errno == EAGAIN || errno == EINTR;
    connection.sent += static_cast<std::size_t>(wrote);
  }
  return connection.reply.empty();
}

bool MetricsServer::read(Connection& connection, const std::function<std::string()>& text) {
  std::array<char, kRequestMax> buffer;
  const ssize_t got = ::recv(connection.file.number(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  connection.request.append(buffer.data(), static_cast<std::size_t>(got));
  const std::string& request = connection.request;
  if (request.find("\r\n\r\n") != request.npos || request.find("\n\n") != request.npos) {
    connection.reply = answer(request, text);
  } else if (request.size() > kRequestMax) {
    connection.reply = reply_of("431 Request Header Fields Too Large", "", true);
  }
  return true;
}

}  // namespace thinwire
