#include "tests/support/tun_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "tests/support/child.h"
#include "tests/support/net_space.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

constexpr int kMtu = 1500;
constexpr int kPacketsAtOnce = 64;    // then the other direction has its turn
constexpr double kLookAround = 0.05;  // s, at most, until a changed flow or a stop is noticed

ifreq wish_of(const std::string& device) {
  ifreq wish{};
  if (device.size() >= sizeof wish.ifr_name) throw Error("a device name too long: " + device);
  std::copy(device.begin(), device.end(), wish.ifr_name);
  return wish;
}

void ask(int file, unsigned long request, ifreq& wish, const char* what) {
  if (::ioctl(file, request, &wish) == 0) return;
  throw Error(std::string("cannot ") + what + " of device " + wish.ifr_name + ": " +
              std::strerror(errno));
}

void put_address(ifreq& wish, const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) {
    throw Error("no IPv4 address: " + text);
  }
  std::memcpy(&wish.ifr_addr, &address, sizeof address);
}

// Devices are made, and their addresses set, in the namespace of the calling thread.
void configure(const TunEnd& end, const std::string& peer) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq wish = wish_of(end.device);
  put_address(wish, end.address);
  ask(socket.number(), SIOCSIFADDR, wish, "set the address");
  put_address(wish, peer);
  ask(socket.number(), SIOCSIFDSTADDR, wish, "set the peer's address");
  wish.ifr_mtu = kMtu;
  ask(socket.number(), SIOCSIFMTU, wish, "set the MTU");
  wish.ifr_flags = IFF_UP | IFF_RUNNING | IFF_POINTOPOINT;
  ask(socket.number(), SIOCSIFFLAGS, wish, "raise the interface");
}

Descriptor make_device(const TunEnd& end, const std::string& peer) {
  Descriptor device;
  run_threads(1, [&](int) {
    NetSpace::enter(end.space);
    device = Descriptor(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!device) throw Error(std::string("cannot open /dev/net/tun: ") + std::strerror(errno));
    ifreq wish = wish_of(end.device);
    wish.ifr_flags = IFF_TUN | IFF_NO_PI;
    ask(device.number(), TUNSETIFF, wish, "make the interface");
    configure(end, peer);
  });
  return device;
}

timespec to_timespec(double seconds) {
  const double whole = std::floor(seconds);
  return {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
}

}  // namespace

TunLink::TunLink(const TunEnd& a, const TunEnd& b, const LinkOptions& a_to_b,
                 const LinkOptions& b_to_a)
    : a_(make_device(a, b.address)), b_(make_device(b, a.address)) {
  ways_[0] = {a_to_b, a_.number(), b_.number(), std::mt19937_64(a_to_b.seed)};
  ways_[1] = {b_to_a, b_.number(), a_.number(), std::mt19937_64(b_to_a.seed + 1)};
}

void TunLink::set(Flow a_to_b, Flow b_to_a) {
  flows_[0] = a_to_b;
  flows_[1] = b_to_a;
}

void TunLink::run() {
  while (!stopping_) {
    wait();
    for (int way : {0, 1}) {
      if (flow(way) != Flow::hold) take(way);
      give(way);
    }
  }
}

void TunLink::wait() const {
  std::array<pollfd, 2> files{};
  double most = kLookAround;
  for (int way : {0, 1}) {
    const bool held = flow(way) == Flow::hold;
    files[way] = {held ? -1 : ways_[way].from, POLLIN, 0};
    if (held || ways_[way].packets.empty()) continue;
    most = std::min(most, ways_[way].packets.front().at - monotonic_s());
  }
  const timespec time = to_timespec(std::max(most, 0.0));
  ::ppoll(files.data(), files.size(), &time, nullptr);
}

// The line takes a packet after the one before it; the delay comes on top and holds nobody up.
void TunLink::take(int way) {
  Way& line = ways_[way];
  char bytes[kMtu];
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    const ssize_t got = ::read(line.from, bytes, sizeof bytes);
    if (got <= 0) return;
    const double now = monotonic_s();
    const double begin = std::max(now, line.line_free);
    const bool lost = std::uniform_real_distribution<double>()(line.random) < line.options.loss;
    if (flow(way) == Flow::drop || begin - now > line.options.queue_ms / 1e3) continue;
    line.line_free = begin + static_cast<double>(got) * 8.0 / (line.options.rate_mbit * 1e6);
    if (lost) continue;
    line.packets.push_back({line.line_free + line.options.delay_ms / 1e3, {bytes, bytes + got}});
  }
}

void TunLink::give(int way) {
  Way& line = ways_[way];
  if (flow(way) == Flow::hold) return;
  if (flow(way) == Flow::drop) line.packets.clear();
  while (!line.packets.empty() && line.packets.front().at <= monotonic_s()) {
    const std::vector<char>& bytes = line.packets.front().bytes;
    // What the other device cannot take is lost, as on any line.
    static_cast<void>(!::write(line.to, bytes.data(), bytes.size()));
    line.packets.pop_front();
  }
}

}  // namespace thinwire::test
