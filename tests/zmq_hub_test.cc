// The hub's sockets: what a run looks like from its clients, and that strangers, the slow and the
// hostile change nothing about it.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "tests/support/hub_client.h"
#include "thinwire/error.h"
#include "transports/zmq.h"
#include "transports/zmq_settings_internal.h"

namespace thinwire::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Two sites, "a" and "b", of one run.
class TwoSites {
 public:
  explicit TwoSites(const std::string& address, const ZmqKeys& keys_a = {},
                    const ZmqKeys& keys_b = {}, const std::string& hub_key = {})
      : a_(address, keys_a, hub_key), b_(address, keys_b, hub_key) {}

  void begin() {
    a_.say(hello_of("a"));
    b_.say(hello_of("b"));
    const auto welcome_a = a_.wait_for<hub::Welcome>();
    const auto welcome_b = b_.wait_for<hub::Welcome>();
    ASSERT_TRUE(welcome_a && welcome_b);
    EXPECT_EQ(welcome_a->site, 0u);
    EXPECT_EQ(welcome_b->site, 1u);
    EXPECT_EQ(welcome_a->sites, 2u);
  }

  // The next round, in which both take part; fails the test when it does not close soon.
  void play(std::size_t bytes = 5) {
    const hub::Slot slot = slot_of(round_++);
    a_.say(hub::Post{slot, bytes_of(std::string(bytes, 'a'))});
    b_.say(hub::Post{slot, bytes_of(std::string(bytes, 'b'))});
    expect_closed(a_, slot, 1, std::string(bytes, 'b'));
    expect_closed(b_, slot, 0, std::string(bytes, 'a'));
  }

  HubClient& a() { return a_; }

 private:
  static void expect_closed(HubClient& client, const hub::Slot& slot, int other,
                            const std::string& frame) {
    const auto closed = client.wait_for<hub::Closed>();
    ASSERT_TRUE(closed) << "round " << slot.round.number << " does not close";
    EXPECT_EQ(closed->slot.round.number, slot.round.number);
    EXPECT_TRUE(closed->included);
    ASSERT_EQ(closed->frames.size(), 1u);
    EXPECT_EQ(closed->frames[0].site, other);
    EXPECT_EQ(closed->frames[0].bytes, bytes_of(frame));
  }

  HubClient a_;
  HubClient b_;
  std::uint64_t round_ = 0;
};

// Some refusals are noticed in a moment only.
bool soon(HubClient& client, const std::function<bool(const nlohmann::json&)>& holds) {
  const auto begin = Clock::now();
  while (seconds_since(begin) < 15.0) {
    if (holds(client.status())) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  ADD_FAILURE() << client.status().dump(1);
  return false;
}

TEST(ZmqHub, WelcomesTwoSitesAndClosesTheirRounds) {
  RunningHub hub;
  TwoSites sites(hub->address());
  sites.begin();
  for (int round = 0; round < 5; ++round) sites.play();
  sites.play(3'000'000);
  const auto status = sites.a().status();
  EXPECT_EQ(status["run"], "run");
  EXPECT_EQ(status["begun"], true);
  EXPECT_EQ(status["rounds_closed"], 6);
  EXPECT_EQ(status["first_open_round"], 6);
  ASSERT_EQ(status["sites"].size(), 2u);
  EXPECT_EQ(status["sites"][1]["name"], "b");
  EXPECT_EQ(status["sites"][1]["active"], true);
  EXPECT_EQ(status["sites"][1]["address"], "127.0.0.1");
}

TEST(ZmqHub, ListensOnIpv6) {
  RunningHub hub({.listen = "tcp://[::1]:*"});
  EXPECT_TRUE(hub->address().starts_with("tcp://[::1]:")) << hub->address();
  EXPECT_TRUE(RunningHub()->address().starts_with("tcp://127.0.0.1:"));
  TwoSites sites(hub->address());
  sites.begin();
  sites.play();
  EXPECT_EQ(sites.a().status()["sites"][0]["address"], "::1");
}

class ZmqHubWithKeys : public testing::Test {
 protected:
  ZmqHubOptions options() const {
    ZmqHubOptions options;
    options.keys = hub_;
    options.allowed = {a_.public_key, b_.public_key};
    return options;
  }

  const ZmqKeys hub_ = make_zmq_keys();
  const ZmqKeys a_ = make_zmq_keys();
  const ZmqKeys b_ = make_zmq_keys();
};

TEST_F(ZmqHubWithKeys, PlaysRoundsWithListedSites) {
  RunningHub hub(options());
  TwoSites sites(hub->address(), a_, b_, hub_.public_key);
  sites.begin();
  sites.play();
  sites.play(1'000'000);
}

TEST_F(ZmqHubWithKeys, LetsNoStrangerReachTheRun) {
  RunningHub hub(options());
  HubClient without(hub->address());
  HubClient unlisted(hub->address(), make_zmq_keys(), hub_.public_key);
  HubClient misled(hub->address(), a_, make_zmq_keys().public_key);
  for (HubClient* stranger : {&without, &unlisted, &misled}) stranger->say(hello_of("a"));
  RawClient raw(hub->address());
  raw.send("GET / HTTP/1.1\r\n\r\n");

  TwoSites sites(hub->address(), a_, b_, hub_.public_key);
  EXPECT_TRUE(soon(sites.a(), [](const auto& status) {
    return refused(status, "key") >= 1 && refused(status, "handshake") >= 3;
  }));
  EXPECT_EQ(sites.a().status()["sites"].size(), 0u) << "a stranger's hello counts";
  sites.begin();  // the names are free
  sites.play();
  for (HubClient* stranger : {&without, &unlisted, &misled}) {
    EXPECT_FALSE(stranger->hear(milliseconds(50))) << "a stranger is answered";
  }
}

TEST_F(ZmqHubWithKeys, KeepsANameForTheKeyThatUsedIt) {
  RunningHub hub(options());
  TwoSites sites(hub->address(), a_, b_, hub_.public_key);
  sites.begin();
  HubClient thief(hub->address(), b_, hub_.public_key);
  hub::Hello hello = hello_of("a");
  hello.process = 99;
  thief.say(hello);
  EXPECT_TRUE(thief.wait_for<hub::Refused>());
  sites.play();
}

TEST(ZmqHub, CountsWhatIsNoMessageAndGoesOn) {
  RunningHub hub;
  TwoSites sites(hub->address());
  sites.begin();
  HubClient stranger(hub->address());
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    stranger.say_bytes(bytes);
  }
  for (int i = 0; i < 100; ++i) stranger.say_bytes("part", i < 99);
  sites.play();
  EXPECT_TRUE(soon(sites.a(), [](const auto& status) {
    return refused(status, "garbage") >= 190 && refused(status, "parts") == 1;
  }));
  sites.play();
}

// ZMTP 3.0 up to the first message: greeting and READY of a DEALER without security.
std::string zmtp_opening() {
  std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03" + std::string(1, '\0') + "NULL";
  greeting.resize(64, '\0');
  std::string ready = "\x05READY\x0bSocket-Type" + std::string("\0\0\0\6", 4) + "DEALER";
  return greeting + std::string("\x04") + static_cast<char>(ready.size()) + ready;
}

std::string long_frame_header(std::uint64_t size) {
  std::string header = "\x02";
  for (int shift = 56; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift);
  return header;
}

TEST(ZmqHub, CutsOffWhoAnnouncesMoreThanAllowed) {
  RunningHub hub({.frame_bytes_max = 1 << 20});
  TwoSites sites(hub->address());
  sites.begin();
  // The same opening with an honest length is heard: the opening is not what is refused.
  RawClient honest(hub->address());
  honest.send(zmtp_opening());
  EXPECT_NE(honest.read(milliseconds(300)).find("READY"), std::string::npos);
  const Bytes ask = hub::encode(hub::AskStatus{});
  honest.send(long_frame_header(ask.size()) +
              std::string(reinterpret_cast<const char*>(ask.data()), ask.size()));
  EXPECT_NE(honest.read(milliseconds(1000)).find("\"sites\""), std::string::npos);

  for (const std::uint64_t size :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{1} << 40,
        (std::uint64_t{1} << 20) + (64 << 10) + 1}) {
    RawClient liar(hub->address());
    liar.send(zmtp_opening());
    EXPECT_NE(liar.read(milliseconds(300)).find("READY"), std::string::npos);
    liar.send(long_frame_header(size) + std::string(1000, 'x'));
    EXPECT_TRUE(liar.closed_by_peer(milliseconds(5000))) << size;
    sites.play();
  }
}

TEST(ZmqHub, TakesWhatFitsIntoAPieceAndNothingLonger) {
  RunningHub hub;
  HubClient at_limit(hub->address());
  at_limit.say_bytes(std::string(kWireMax, 'x'));
  HubClient watcher(hub->address());
  EXPECT_TRUE(soon(watcher, [](const auto& one) { return refused(one, "garbage") == 1; }));
  HubClient above(hub->address());
  above.say_bytes(std::string(kWireMax + 1, 'x'));
  EXPECT_FALSE(above.hear(milliseconds(300)));
  EXPECT_EQ(refused(watcher.status(), "garbage"), 1) << "it was read";
}

// A stranger's pieces are not kept, and a site's only up to the longest frame.
TEST(ZmqHub, TakesPiecesOfItsSitesUpToTheLongestMessage) {
  RunningHub hub({.frame_bytes_max = 1 << 20});
  TwoSites sites(hub->address());
  sites.begin();
  sites.play(1 << 20);
  HubClient stranger(hub->address());
  const hub::Post longer{slot_of(1), Bytes((1 << 20) + (64 << 10))};
  stranger.say(longer);
  EXPECT_TRUE(soon(stranger, [](const auto& one) { return refused(one, "garbage") == 5; }));
  sites.a().say(longer);
  EXPECT_TRUE(soon(stranger, [](const auto& one) { return refused(one, "garbage") == 10; }));
  sites.play(1 << 20);
}

TEST(ZmqHub, NoticesSoonThatAConnectionHasEnded) {
  RunningHub hub;
  HubClient b(hub->address());
  const auto address = [&] { return b.status()["sites"][0]["address"].get<std::string>(); };
  {
    HubClient a(hub->address());
    a.say(hello_of("a"));
    b.say(hello_of("b"));
    ASSERT_TRUE(a.wait_for<hub::Welcome>() && b.wait_for<hub::Welcome>());
    EXPECT_EQ(address(), "127.0.0.1");
  }
  const auto begin = Clock::now();
  while (!address().empty() && seconds_since(begin) < 10.0)
    std::this_thread::sleep_for(milliseconds(20));
  EXPECT_LT(seconds_since(begin), 2.0);
  EXPECT_EQ(address(), "");
}

TEST(ZmqHub, IsNotDisturbedByClientsThatTrickleOrSpeakNonsense) {
  RunningHub hub;
  TwoSites sites(hub->address());
  sites.begin();
  std::deque<RawClient> slow;
  for (int i = 0; i < 30; ++i) slow.emplace_back(hub->address());
  RawClient nonsense(hub->address());
  std::mt19937 random(2);
  const std::string opening = zmtp_opening();
  for (std::size_t byte = 0; byte < 10; ++byte) {
    for (RawClient& one : slow) one.send(opening.substr(byte, 1));
    nonsense.send(std::string(1000, static_cast<char>(random())));
    const auto begin = Clock::now();
    sites.play();
    EXPECT_LT(seconds_since(begin), 1.0);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_TRUE(nonsense.closed_by_peer(milliseconds(5000)));
  // One that never ends its handshake is cut off after a while: 10 s, counted from its arrival.
  EXPECT_TRUE(slow.front().closed_by_peer(milliseconds(15'000)));
  sites.play();
}

TEST(ZmqHub, GivesUpAReaderThatTakesNothingAndTheOthersGoOn) {
  RunningHub hub(
      {.sites = 3, .peer_timeout = milliseconds(5000), .frame_bytes_max = std::size_t{8} << 20});
  HubClient a(hub->address());
  HubClient b(hub->address());
  HubClient deaf(hub->address(), {}, {}, 1);
  a.say(hello_of("a"));
  b.say(hello_of("b"));
  deaf.say(hello_of("c"));
  ASSERT_TRUE(a.wait_for<hub::Welcome>() && b.wait_for<hub::Welcome>());
  const Bytes frame(std::size_t{8} << 20);
  for (std::uint64_t round = 0; round < 14; ++round) {
    const hub::Slot slot = slot_of(round);
    a.say(hub::Post{slot, frame});
    b.say(hub::Post{slot, frame});
    deaf.say(hub::Post{slot, bytes_of("c")});
    ASSERT_TRUE(a.wait_for<hub::Closed>()) << round;
    ASSERT_TRUE(b.wait_for<hub::Closed>()) << round;
  }
  EXPECT_GE(refused(a.status(), "queue"), 1);
}

TEST(ZmqHub, SaysWhichAddressIsInUse) {
  RunningHub hub;
  const auto begin = Clock::now();
  try {
    ZmqHub second({.listen = hub->address()});
    FAIL() << "two hubs on one address";
  } catch (const UsageError&) {
    FAIL() << "the wrong kind of error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(hub->address() + ": Address already in use"),
              std::string::npos)
        << error.what();
  }
  EXPECT_LT(seconds_since(begin), 2.0);
}

TEST(ZmqHub, StopsWithinTwoSecondsIdleAndInMidRound) {
  for (const bool busy : {false, true}) {
    RunningHub hub;
    TwoSites sites(hub->address());
    if (busy) {
      sites.begin();
      sites.a().say(hub::Post{slot_of(0), Bytes(1 << 20)});
    }
    const auto begin = Clock::now();
    hub.stop();
    EXPECT_LT(seconds_since(begin), 2.0) << busy;
  }
  ZmqHub stopped(any_port());  // also when it came first
  stopped.stop();
  stopped.run();
}

TEST(ZmqHub, RefusesSettingsThatContradictEachOther) {
  const ZmqKeys keys = make_zmq_keys();
  const auto why = [](ZmqHubOptions options) -> std::string {
    try {
      const ZmqHub hub(any_port(std::move(options)));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  };
  for (const char* open : {"tcp://*:*", "tcp://0.0.0.0:*", "tcp://[::]:*"}) {
    EXPECT_NE(why({.listen = open}).find("--keys, --allow"), std::string::npos) << open;
    EXPECT_EQ(why({.listen = open, .keys = keys, .allowed = {keys.public_key}}), "taken") << open;
  }
  EXPECT_NE(why({.keys = keys}).find("--allow"), std::string::npos);
  EXPECT_NE(why({.allowed = {keys.public_key}}).find("--keys"), std::string::npos);
  EXPECT_NE(why({.keys = {"short", "short"}, .allowed = {"short"}}).find("40"), std::string::npos);
  EXPECT_NE(why({.run = ""}).find("--run"), std::string::npos);
  EXPECT_NE(why({.sites = 0}).find("--sites"), std::string::npos);
  EXPECT_NE(why({.peer_timeout = milliseconds(1)}).find("--peer-timeout"), std::string::npos);
  EXPECT_NE(why({.round_deadline = milliseconds(0)}).find("--round-deadline"), std::string::npos);
}

std::string http(const std::string& address, const std::string& request) {
  RawClient client(address);
  client.send(request);
  return client.read(milliseconds(5000));
}

TEST(ZmqHub, AnswersPrometheus) {
  RunningHub hub({.metrics = "127.0.0.1:0"});
  TwoSites sites(hub->address());
  sites.begin();
  sites.play();
  const std::string get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string text = http(hub->metrics_address(), get);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
  EXPECT_NE(text.find("\nthinwire_hub_rounds_closed_total 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nthinwire_hub_sites_active 2\n"), std::string::npos) << text;
  EXPECT_TRUE(http(hub->metrics_address(), "GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(http(hub->metrics_address(), "PUT / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(http(hub->metrics_address(), std::string(9000, 'x')).starts_with("HTTP/1.1 431"));
}

TEST(ZmqHub, SurvivesSlowReadersOfItsMetrics) {
  RunningHub hub({.metrics = "127.0.0.1:0"});
  TwoSites sites(hub->address());
  sites.begin();
  const std::string get = "GET /metrics HTTP/1.1\r\n\r\n";
  std::deque<RawClient> slow;
  for (int i = 0; i < 15; ++i) slow.emplace_back(hub->metrics_address()).send("G");
  EXPECT_TRUE(http(hub->metrics_address(), get).starts_with("HTTP/1.1 200"));
  for (int i = 0; i < 15; ++i) slow.emplace_back(hub->metrics_address()).send("G");
  sites.play();
  EXPECT_TRUE(slow.front().closed_by_peer(milliseconds(5000)));
  std::this_thread::sleep_for(milliseconds(2500));
  EXPECT_TRUE(http(hub->metrics_address(), get).starts_with("HTTP/1.1 200"));
  sites.play();
}

TEST(ZmqHub, SaysWhichMetricsAddressIsInUse) {
  RunningHub hub({.metrics = "127.0.0.1:0"});
  try {
    const ZmqHub second(any_port({.metrics = hub->metrics_address()}));
    FAIL() << "two endpoints on one address";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(hub->metrics_address() + ": Address already in use"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace thinwire::test
