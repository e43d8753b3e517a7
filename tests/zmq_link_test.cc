// The far link over real TCP: what a site does when all is well, and when hubs die, freeze or
// refuse.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "optimizers/catalog.h"
#include "tests/support/far_run.h"
#include "tests/support/hub_process.h"
#include "tests/support/rarely.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/transport_suite.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

enum class Secrecy { none, curve };

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(const TransportOptions& options, Secrecy secrecy) : links_(options.members) {
    ZmqHubOptions hub{.listen = "tcp://127.0.0.1:0",
                      .sites = options.members,
                      .round_deadline = options.deadline};
    std::vector<ZmqKeys> keys(options.members);
    if (secrecy == Secrecy::curve) {
      hub.keys = make_zmq_keys();
      for (ZmqKeys& one : keys) hub.allowed.push_back((one = make_zmq_keys()).public_key);
    }
    hub_.emplace(hub);
    run_threads(options.members, [&](int member) {
      ZmqLinkOptions link{.hubs = {hub_->address()},
                          .hub_key = hub.keys.public_key,
                          .keys = keys[member],
                          .site = far_site_name(member)};
      links_[member] = std::make_unique<ZmqLink>(link, 1, "");
    });
  }
  Collective& collective(int member) override { return links_[member]->collective(0); }
  Exchange& exchange(int member) override { return links_[member]->exchange(0); }

 private:
  std::optional<RunningHub> hub_;
  std::vector<std::unique_ptr<ZmqLink>> links_;
};

std::unique_ptr<Transport> make_plain(const TransportOptions& options) {
  return std::make_unique<ZmqTransport>(options, Secrecy::none);
}
std::unique_ptr<Transport> make_curve(const TransportOptions& options) {
  return std::make_unique<ZmqTransport>(options, Secrecy::curve);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CollectiveSuite);  // the hub averages, no more
INSTANTIATE_TEST_SUITE_P(Zmq, AllReduceSuite, testing::Values(&make_plain));
INSTANTIATE_TEST_SUITE_P(Zmq, ExchangeSuite, testing::Values(&make_plain));
INSTANTIATE_TEST_SUITE_P(ZmqCurve, AllReduceSuite, testing::Values(&make_curve));
INSTANTIATE_TEST_SUITE_P(ZmqCurve, ExchangeSuite, testing::Values(&make_curve));

// ---- training

SiteRunOptions method_run(const std::string& name, std::map<std::string, std::string> set,
                          int sites, int ranks) {
  SiteRunOptions run;
  run.world = {.sites = sites, .ranks = ranks};
  run.optimizer = [name, set] {
    Settings settings(name, set);
    return optimizer_catalog().make(name, settings);
  };
  return run;
}

void expect_hash(const FarOutcome& outcome, std::uint64_t hash) {
  for (const RankOutcome& rank : outcome.ranks) EXPECT_EQ(rank.hash, hash);
}

TEST(ZmqLink, TrainsEveryMethodToTheBitsOfLoopback) {
  std::vector<std::pair<std::string, std::map<std::string, std::string>>> methods;
  for (const std::string& name : optimizer_catalog().names()) methods.push_back({name, {}});
  methods.push_back({"distro", {{"delay", "1"}}});
  methods.push_back({"demo", {{"delay", "3"}}});
  for (const auto& [name, set] : methods) {
    for (const auto& [sites, ranks] : {std::pair{4, 1}, {2, 2}}) {
      SCOPED_TRACE(name + ", " + std::to_string(sites) + " sites");
      const SiteRunOptions run = method_run(name, set, sites, ranks);
      RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = sites});
      const FarOutcome outcome =
          run_far({.run = run, .hubs = [&](int) { return std::vector{hub.address()}; }});
      expect_hash(outcome, run_sites(run)[0].hash);
    }
  }
}

TEST(ZmqLink, TrainsAMethodThatSpeaksRarelyToTheBitsOfLoopback) {
  for (const auto& method : {Rarely::Options{}, Rarely::Options{.every = 3, .delay = 4},
                             Rarely::Options{.meeting = Meeting::reduce}}) {
    SiteRunOptions run;
    run.world = {.sites = 3, .ranks = 2};
    run.steps = 31;
    run.optimizer = [&] { return std::make_unique<Rarely>(method); };
    RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 3});
    const FarOutcome outcome =
        run_far({.run = run, .hubs = [&](int) { return std::vector{hub.address()}; }});
    expect_hash(outcome, run_sites(run)[0].hash);
  }
}

// Lets site 0 set the pace, so that a run lasts long enough for something to happen in it.
std::function<void(Trainer&, int, int)> pace(int milliseconds_a_step,
                                             std::atomic<std::uint64_t>* step = nullptr) {
  return [=](Trainer& trainer, int site, int rank) {
    if (site == 0 && rank == 0 && step) *step = trainer.steps_done();
    if (site == 0) std::this_thread::sleep_for(milliseconds(milliseconds_a_step));
  };
}

void wait_for_step(const std::atomic<std::uint64_t>& step, std::uint64_t at) {
  const auto begin = Clock::now();
  while (step < at && since(begin) < 30) std::this_thread::sleep_for(milliseconds(1));
}

// Kills the hub five times in mid-run; it comes back on the same port.
void kill_the_hub(SiteRunOptions run) {
  run.steps = 60;
  const int sites = run.world.sites;
  const std::string address = free_address();
  std::optional<HubProcess> hub;
  hub.emplace(address, sites, 5.0);
  std::atomic<std::uint64_t> step = 0;
  std::jthread killer([&] {
    for (std::uint64_t at : {5u, 14u, 15u, 33u, 50u}) {
      wait_for_step(step, at);
      std::this_thread::sleep_for(milliseconds(at % 7));
      hub->kill();
      std::this_thread::sleep_for(milliseconds(100));
      hub.emplace(address, sites, 5.0);
    }
  });
  const FarOutcome outcome = run_far({.run = run,
                                      .hubs = [&](int) { return std::vector{address}; },
                                      .peer_timeout = seconds(5),
                                      .before_step = pace(4, &step)});
  killer.join();
  expect_hash(outcome, run_sites(run)[0].hash);
}

TEST(ZmqLink, AKilledHubThatComesBackCostsNoStepOfGather) {
  kill_the_hub(method_run("distro", {}, 3, 2));
}
TEST(ZmqLink, AKilledHubThatComesBackCostsNoStepWithADelay) {
  kill_the_hub(method_run("distro", {{"delay", "2"}}, 4, 1));
}
TEST(ZmqLink, AKilledHubThatComesBackCostsNoStepOfAllReduce) {
  kill_the_hub(method_run("adamw", {}, 3, 2));
}

TEST(ZmqLink, GoesOnAtTheNextHubOfItsList) {
  SiteRunOptions run = method_run("distro", {{"delay", "1"}}, 3, 1);
  run.steps = 60;
  std::optional<RunningHub> first;
  const ZmqHubOptions hub{.listen = "tcp://127.0.0.1:0",
                          .sites = 3,
                          .min_sites = 2,
                          .peer_timeout = milliseconds(1'000)};
  first.emplace(hub);
  RunningHub second(hub);
  const std::vector<std::string> hubs{first->address(), second.address()};
  std::atomic<std::uint64_t> step = 0;
  std::jthread killer([&] {
    wait_for_step(step, 20);
    first.reset();
  });
  const FarOutcome outcome = run_far({.run = run,
                                      .hubs = [&](int) { return hubs; },
                                      .peer_timeout = milliseconds(1'000),
                                      .before_step = pace(3, &step)});
  killer.join();
  expect_hash(outcome, run_sites(run)[0].hash);
}

void freeze_a_site(const std::string& name, std::map<std::string, std::string> set,
                   std::uint64_t delay) {
  SiteRunOptions run = method_run(name, std::move(set), 3, 1);
  run.steps = 120;
  RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 3, .peer_timeout = milliseconds(400)});
  TcpProxy proxy({.port = hub.port()});
  std::atomic<std::uint64_t> step = 0;
  std::jthread freezer([&] {
    wait_for_step(step, 30);
    proxy.freeze();
    std::this_thread::sleep_for(milliseconds(900));
    proxy.thaw();
  });
  const FarOutcome outcome = run_far(
      {.run = run,
       .hubs = [&](int site) { return std::vector{site == 2 ? proxy.address() : hub.address()}; },
       .peer_timeout = milliseconds(400),
       .before_step = pace(20, &step)});
  freezer.join();
  expect_hash(outcome, outcome.ranks[0].hash);
  if (delay < 9) expect_nothing_lost_or_doubled(outcome, 1, run.steps - delay);
  int alone = 0;
  int together_after = 0;
  for (const StepReport& report : outcome.ranks[0].reports) {
    if (report.heard == 2) ++alone;
    if (alone > 0 && report.heard == 3) ++together_after;
  }
  EXPECT_GE(alone, 3);
  EXPECT_GE(together_after, 10);
  int caught_up = 0;
  for (const StepReport& report : outcome.ranks[2].reports) caught_up += report.caught_up ? 1 : 0;
  EXPECT_GE(caught_up, 3);
}

TEST(ZmqLink, AFrozenSiteCatchesUpAndNothingIsLostOrDoubled) { freeze_a_site("distro", {}, 0); }
TEST(ZmqLink, AFrozenSiteCatchesUpAndNothingIsLostOrDoubledWithADelay) {
  freeze_a_site("distro", {{"delay", "2"}}, 2);
}

TEST(ZmqLink, ACutConnectionIsMadeAgainAndCostsNothing) {
  SiteRunOptions run = method_run("distro", {{"delay", "1"}}, 2, 1);
  run.steps = 60;
  RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
  TcpProxy proxy({.port = hub.port(), .delay_s = 0.002, .rate = 20e6});
  std::atomic<std::uint64_t> step = 0;
  std::jthread cutter([&] {
    for (std::uint64_t at = 5; at < 55; at += 7) {
      wait_for_step(step, at);
      proxy.cut();
    }
  });
  const FarOutcome outcome = run_far({.run = run,
                                      .hubs = [&](int) { return std::vector{proxy.address()}; },
                                      .before_step = pace(3, &step)});
  cutter.join();
  EXPECT_GE(proxy.connections(), 10u);
  expect_hash(outcome, run_sites(run)[0].hash);
}

// ---- refusals and ends

ZmqLinkOptions site_at(const std::string& hub, const std::string& name = "here") {
  ZmqLinkOptions options;
  options.hubs = {hub};
  options.site = name;
  options.connect_timeout = milliseconds(5000);
  options.peer_timeout = milliseconds(1000);
  return options;
}

std::string refusal(const ZmqLinkOptions& options, std::uint64_t agreement = 1,
                    const std::string& agreed = "") {
  try {
    ZmqLink link(options, agreement, agreed);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
}

TEST(ZmqLink, WithoutAHubTheErrorNamesTheAddressesInTime) {
  ZmqLinkOptions options = site_at("tcp://127.0.0.1:1");
  options.hubs.push_back("tcp://127.0.0.1:2");
  options.connect_timeout = milliseconds(600);
  const auto begin = Clock::now();
  try {
    ZmqLink link(options, 1, "");
    FAIL() << "there is no hub";
  } catch (const HubLost& error) {
    expect_contains(error.what(), "tcp://127.0.0.1:1, tcp://127.0.0.1:2");
    expect_contains(error.what(), "0.6 s");
  }
  EXPECT_LT(since(begin), 2.0);
}

TEST(ZmqLink, ARunThatDoesNotBeginIsToldFromAHubThatIsNotThere) {
  RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
  ZmqLinkOptions options = site_at(hub.address());
  options.connect_timeout = milliseconds(600);
  expect_contains(refusal(options), "is there, but the run has not begun within 0.6 s");
}

TEST(ZmqLink, AHubThatComesLaterIsFound) {
  const std::string address = free_address();
  std::optional<RunningHub> hub;
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(500));
    hub.emplace(ZmqHubOptions{.listen = address, .sites = 1});
  });
  EXPECT_EQ(refusal(site_at(address)), "");
  late.join();
}

TEST(ZmqLink, BothSidesNameWhatIsNotAgreed) {
  testing::internal::CaptureStderr();
  std::string site_says;
  {
    RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
    std::jthread first([&] {
      ZmqLinkOptions options = site_at(hub.address(), "a");
      options.connect_timeout = milliseconds(1000);
      refusal(options, 1, "method = distro\nk = 8");
    });
    std::this_thread::sleep_for(milliseconds(300));
    const auto begin = Clock::now();
    site_says = refusal(site_at(hub.address(), "b"), 2, "method = distro\nk = 16");
    EXPECT_LT(since(begin), 2.0);
  }
  const std::string hub_says = testing::internal::GetCapturedStderr();
  for (const std::string& text : {site_says, hub_says}) {
    expect_contains(text, "k = 8");
    expect_contains(text, "k = 16");
  }
}

TEST(ZmqLink, AnotherRunIsRefusedByName) {
  RunningHub hub({.listen = "tcp://127.0.0.1:0", .run = "monday", .sites = 1});
  ZmqLinkOptions options = site_at(hub.address());
  options.run = "tuesday";
  const std::string why = refusal(options);
  expect_contains(why, "monday");
  expect_contains(why, "tuesday");
}

TEST(ZmqLink, StrangersAreTurnedAwayQuickly) {
  ZmqHubOptions with_keys{.listen = "tcp://127.0.0.1:0", .sites = 1};
  const ZmqKeys known = make_zmq_keys();
  with_keys.keys = make_zmq_keys();
  with_keys.allowed = {known.public_key};
  RunningHub hub(with_keys);
  ZmqLinkOptions options = site_at(hub.address());
  options.hub_key = with_keys.keys.public_key;
  const auto begin = Clock::now();
  options.keys = make_zmq_keys();
  expect_contains(refusal(options), "does not know the key of this site");
  options.keys = known;
  options.hub_key = make_zmq_keys().public_key;
  expect_contains(refusal(options), "handshake");
  expect_contains(refusal(site_at(hub.address())), "handshake");
  EXPECT_LT(since(begin), 6.0);
  options.hub_key = with_keys.keys.public_key;
  EXPECT_EQ(refusal(options), "");
}

TEST(ZmqLink, RefusesOptionsThatMakeNoSense) {
  const auto usage_error = [](auto spoil) {
    ZmqLinkOptions options = site_at("tcp://127.0.0.1:1");
    spoil(options);
    EXPECT_THROW(ZmqLink(options, 1, ""), UsageError);
  };
  usage_error([](auto& options) { options.hubs.clear(); });
  usage_error([](auto& options) { options.hubs = {"127.0.0.1"}; });
  usage_error([](auto& options) { options.hubs = {"tcp://192.0.2.1:5555"}; });
  usage_error([](auto& options) { options.hub_key = make_zmq_keys().public_key; });
  usage_error([](auto& options) { options.keys = make_zmq_keys(); });
  usage_error([](auto& options) { options.site = ""; });
  usage_error([](auto& options) { options.site = "two words"; });
  usage_error([](auto& options) { options.ranks = 0; });
  usage_error([](auto& options) { options.peer_timeout = milliseconds(1); });
  usage_error([](auto& options) { options.hub_timeout = milliseconds(500); });
}

TEST(ZmqLink, KnowsTheMeanAloneOfAllCollectiveOperations) {
  RunningHub hub({.listen = "tcp://127.0.0.1:0", .sites = 1});
  ZmqLink link(site_at(hub.address()), 1, "");
  std::vector<float> data(4);
  EXPECT_THROW(link.collective(0).broadcast(data, 0), Error);
  EXPECT_THROW(link.collective(0).barrier(), Error);
}

TEST(ZmqLink, WithoutAnyHubForTheHubTimeoutItSaysSo) {
  std::optional<RunningHub> hub;
  hub.emplace(ZmqHubOptions{.listen = "tcp://127.0.0.1:0", .sites = 1});
  ZmqLinkOptions options = site_at(hub->address());
  options.peer_timeout = milliseconds(300);
  options.hub_timeout = milliseconds(800);
  ZmqLink link(options, 1, "");
  hub.reset();
  const auto begin = Clock::now();
  link.exchange(0).post({1, 0, 0}, Bytes(10));
  EXPECT_THROW(link.exchange(0).collect({1, 0, 0}), HubLost);
  EXPECT_LT(since(begin), 3.0);
  link.exchange(0).post({1, 1, 0}, Bytes(10));  // says nothing: all ranks learn it in one place
  EXPECT_THROW(link.exchange(0).collect({1, 1, 0}), HubLost);
}

TEST(ZmqLink, AFrozenHubIsNoticedAndOneThatThawsIsTakenUpAgain) {
  const std::string address = free_address();
  HubProcess hub(address, 1, 1.0);
  ZmqLinkOptions options = site_at(address);
  options.peer_timeout = milliseconds(400);
  ZmqLink link(options, 1, "");
  link.exchange(0).post({1, 0, 0}, Bytes(10));
  link.exchange(0).collect({1, 0, 0});
  hub.freeze();
  std::jthread thawer([&] {
    std::this_thread::sleep_for(milliseconds(1500));
    hub.thaw();
  });
  link.exchange(0).post({1, 1, 0}, Bytes(20));
  EXPECT_EQ(link.exchange(0).collect({1, 1, 0}).frames.size(), 1u);
}

TEST(ZmqLink, EndsWithinTwoSecondsWhateverTheHubDoes) {
  for (const bool frozen : {true, false}) {
    const std::string address = free_address();
    HubProcess hub(address, 1, 1.0);
    auto link = std::make_unique<ZmqLink>(site_at(address), 1, "");
    link->exchange(0).post({1, 0, 0}, Bytes(1 << 20));
    link->exchange(0).collect({1, 0, 0});
    if (frozen) hub.freeze();
    if (!frozen) hub.kill();
    for (std::uint64_t number = 1; number < 8; ++number) {
      link->exchange(0).post({1, number, 0}, Bytes(8 << 20));
    }
    std::this_thread::sleep_for(milliseconds(100));
    const auto begin = Clock::now();
    link.reset();
    EXPECT_LT(since(begin), 2.0) << (frozen ? "frozen" : "gone");
  }
}

}  // namespace
}  // namespace thinwire::test
