// A link between a site and its hub that can be made bad: a TCP proxy on the loopback interface
// with delay, rate, freeze (bytes stand still, connections stay) and cut (connections are closed).
// One thread of its own; its functions may be called from any thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <limits>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/error.h"

namespace thinwire::test {

class TcpProxy {
 public:
  struct Options {
    int port = 0;                                           // of the hub, on 127.0.0.1
    double delay_s = 0.0;                                   // one way
    double rate = std::numeric_limits<double>::infinity();  // bytes per second, one way
    std::size_t queue = 4u << 20;  // bytes that wait in it, one way, and in the kernel before it
  };

  explicit TcpProxy(Options options) : options_(options), listener_(open_listener()) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) turn();
      close_all();
    });
  }
  ~TcpProxy() {
    thread_.request_stop();
    thread_.join();
    ::close(listener_);
  }

  std::string address() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  void freeze() { frozen_ = true; }
  void thaw() { frozen_ = false; }
  void cut() { cut_ = true; }
  std::uint64_t connections() const { return connections_; }

 private:
  struct Chunk {
    double at;  // it may leave
    std::vector<char> bytes;
  };
  struct Way {
    int from = -1;
    int to = -1;
    std::deque<Chunk> chunks = {};
    std::size_t waiting = 0;  // bytes in chunks
    double line_free = 0.0;
    bool ended = false;
  };
  struct Pair {
    Way up;
    Way down;
    bool broken = false;
  };

  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static int open_listener() {
    const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(0);
    if (::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(file, 64) != 0) {
      throw Error("the proxy cannot listen on 127.0.0.1");
    }
    return file;
  }

  void turn() {
    if (cut_.exchange(false)) close_all();
    if (frozen_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return;
    }
    std::vector<pollfd> files{{listener_, POLLIN, 0}};
    for (Pair& pair : pairs_) {
      for (Way* way : {&pair.up, &pair.down}) {
        const bool reads = !way->ended && way->waiting < options_.queue;
        files.push_back({reads ? way->from : -1, POLLIN, 0});
      }
    }
    const bool busy = std::any_of(pairs_.begin(), pairs_.end(), [](const Pair& pair) {
      return pair.up.waiting + pair.down.waiting > 0;
    });
    ::poll(files.data(), files.size(), busy ? 1 : 20);
    std::size_t at = 1;
    for (Pair& pair : pairs_) {
      for (Way* way : {&pair.up, &pair.down}) {
        if (files[at++].revents != 0) take(*way);
        if (!give(*way)) pair.broken = true;
        if (way->ended && way->chunks.empty()) pair.broken = true;
      }
    }
    pairs_.remove_if([](Pair& pair) {
      if (pair.broken) close_pair(pair);
      return pair.broken;
    });
    if (files[0].revents != 0) accept_one();
  }

  void accept_one() {
    const int site = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (site < 0) return;
    const int hub = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(options_.port);
    if (::connect(hub, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(site);
      ::close(hub);
      return;
    }
    const int queue = static_cast<int>(options_.queue);
    for (int file : {site, hub}) ::setsockopt(file, SOL_SOCKET, SO_RCVBUF, &queue, sizeof queue);
    ++connections_;
    pairs_.push_back({{.from = site, .to = hub}, {.from = hub, .to = site}});
  }

  void take(Way& way) {
    std::vector<char> bytes(64 << 10);
    const ssize_t got = ::recv(way.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      way.ended = true;
      return;
    }
    bytes.resize(static_cast<std::size_t>(got));
    way.line_free = std::max(way.line_free, now()) + static_cast<double>(got) / options_.rate;
    way.waiting += bytes.size();
    way.chunks.push_back({way.line_free + options_.delay_s, std::move(bytes)});
  }

  // False: nobody takes it any more.
  bool give(Way& way) {
    while (!way.chunks.empty() && way.chunks.front().at <= now()) {
      std::vector<char>& bytes = way.chunks.front().bytes;
      const ssize_t sent = ::send(way.to, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      way.waiting -= static_cast<std::size_t>(sent);
      bytes.erase(bytes.begin(), bytes.begin() + sent);
      if (!bytes.empty()) return true;
      way.chunks.pop_front();
    }
    return true;
  }

  static void close_pair(const Pair& pair) {
    ::close(pair.up.from);
    ::close(pair.up.to);
  }
  void close_all() {
    for (const Pair& pair : pairs_) close_pair(pair);
    pairs_.clear();
  }

  const Options options_;
  const int listener_;
  int port_ = 0;
  std::atomic<bool> frozen_{false};
  std::atomic<bool> cut_{false};
  std::atomic<std::uint64_t> connections_{0};
  std::list<Pair> pairs_;
  std::jthread thread_;
};

}  // namespace thinwire::test
