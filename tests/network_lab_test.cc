// The slow link does what it says: delay, rate, loss, freeze, and packets that vanish.
#include "tests/support/network_lab.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace thinwire::test {
namespace {

constexpr int kPort = 7000;

sockaddr_in address_of(const std::string& ip) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  ::inet_pton(AF_INET, ip.c_str(), &address.sin_addr);
  return address;
}

bool readable(int file, int milliseconds) {
  pollfd wait{file, POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

// Datagrams to the hub's end and back, from a thread that is in the site's namespace.
class Echo {
 public:
  explicit Echo(const NetworkLab& lab) {
    lab.hub_space().run([&] {
      server_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const sockaddr_in here = address_of("0.0.0.0");
      EXPECT_EQ(::bind(server_.number(), reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    });
    lab.site_space(0).run([&] {
      client_ = Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const sockaddr_in there = address_of(lab.hub_ip(0));
      EXPECT_EQ(
          ::connect(client_.number(), reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
    });
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) answer();
    });
  }

  // Milliseconds until the datagram is back; negative: it did not come.
  double round_trip_ms(int patience_ms) {
    const std::uint32_t mine = ++last_;
    const double begin = monotonic_s();
    EXPECT_EQ(::send(client_.number(), &mine, sizeof mine, 0), ssize_t{sizeof mine});
    while (readable(client_.number(), patience_ms)) {
      std::uint32_t heard = 0;
      static_cast<void>(!::recv(client_.number(), &heard, sizeof heard, 0));
      if (heard == mine) return (monotonic_s() - begin) * 1e3;
    }
    return -1.0;
  }

 private:
  void answer() {
    if (!readable(server_.number(), 20)) return;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    char bytes[64];
    auto* sender = reinterpret_cast<sockaddr*>(&from);
    const ssize_t got = ::recvfrom(server_.number(), bytes, sizeof bytes, 0, sender, &size);
    if (got > 0) ::sendto(server_.number(), bytes, static_cast<std::size_t>(got), 0, sender, size);
  }

  Descriptor server_;
  Descriptor client_;
  std::uint32_t last_ = 0;
  std::jthread thread_;
};

class Network : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkLab::missing();
    if (!missing.empty()) GTEST_SKIP() << "no network namespaces here: " << missing;
  }
};

TEST_F(Network, ARoundTripTakesTwiceTheDelay) {
  NetworkLab lab(1, {.round_trip_ms = 100.0});
  Echo echo(lab);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const double time = echo.round_trip_ms(5000);
    ASSERT_GE(time, 100.0);
    best = std::min(best, time);
  }
  EXPECT_LT(best, 110.0);
}

// The best of several: a busy machine makes a link slower, never faster.
double tcp_mbit(const NetworkLab& lab, double seconds) {
  Descriptor listener;
  lab.hub_space().run([&] {
    listener = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in here = address_of("0.0.0.0");
    ASSERT_EQ(::bind(listener.number(), reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
    ASSERT_EQ(::listen(listener.number(), 1), 0);
  });
  std::atomic<bool> done = false;
  std::jthread sender([&] {
    lab.site_space(0).run([&] {
      const Descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in there = address_of(lab.hub_ip(0));
      const timeval patience{2, 0};
      ::setsockopt(out.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
      ASSERT_EQ(::connect(out.number(), reinterpret_cast<const sockaddr*>(&there), sizeof there),
                0);
      const std::vector<char> bytes(64 << 10);
      while (!done) ::send(out.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    });
  });
  EXPECT_TRUE(readable(listener.number(), 5000));
  const Descriptor in(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  std::vector<char> bytes(64 << 10);
  double received = 0.0;
  const double begin = monotonic_s();
  while (monotonic_s() - begin < seconds && readable(in.number(), 1000)) {
    const double got = static_cast<double>(::recv(in.number(), bytes.data(), bytes.size(), 0));
    // The sender's first burst finds an empty queue.
    if (monotonic_s() - begin > seconds / 4.0) received += got;
  }
  done = true;
  return received * 8.0 / 1e6 / (seconds * 0.75);
}

TEST_F(Network, CarriesItsRateAndNoMore) {
  NetworkLab lab(1, {.round_trip_ms = 20.0, .rate_mbit = 20.0});
  const double rate = tcp_mbit(lab, 3.0);
  EXPECT_GT(rate, 17.0);
  EXPECT_LT(rate, 20.5);
}

TEST_F(Network, LosesAboutWhatItIsTold) {
  NetworkLab lab(1, {.loss = 0.1});
  Echo echo(lab);
  int lost = 0;
  for (int i = 0; i < 200; ++i) lost += echo.round_trip_ms(50) < 0.0 ? 1 : 0;
  EXPECT_GE(lost, 20);  // 19 % of round trips are expected, 38 of 200
  EXPECT_LE(lost, 60);
}

TEST_F(Network, AFrozenLinkHoldsWhatIsUnderWay) {
  NetworkLab lab(1, {.round_trip_ms = 10.0});
  Echo echo(lab);
  EXPECT_GE(echo.round_trip_ms(5000), 0.0);
  lab.freeze(0);
  std::jthread thaw([&] {
    pause_ms(300);
    lab.thaw(0);
  });
  EXPECT_GE(echo.round_trip_ms(5000), 290.0);
}

TEST_F(Network, PacketsCanVanishAndALinkCanBeUnplugged) {
  NetworkLab lab(1, {.round_trip_ms = 2.0});
  Echo echo(lab);
  EXPECT_GE(echo.round_trip_ms(5000), 0.0);
  lab.drop(0);
  EXPECT_TRUE(wait_until(5.0, [&] { return echo.round_trip_ms(50) < 0.0; }));
  EXPECT_LT(echo.round_trip_ms(200), 0.0);
  lab.pass(0);
  EXPECT_TRUE(wait_until(5.0, [&] { return echo.round_trip_ms(50) >= 0.0; }));
  lab.unplug(0);
  lab.plug(0);
  EXPECT_TRUE(wait_until(5.0, [&] { return echo.round_trip_ms(50) >= 0.0; }));
}

TEST_F(Network, NothingStaysBehind) {
  std::string path;
  {
    NetworkLab lab(2, {});
    path = lab.site_space(1).path();
    EXPECT_NO_THROW(run_threads(1, [&](int) { NetSpace::enter(path); }));
  }
  EXPECT_THROW(run_threads(1, [&](int) { NetSpace::enter(path); }), std::exception);
}

}  // namespace
}  // namespace thinwire::test
