// Sites as real processes: the same run over ZeroMQ and over loopback ends with equal bits.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/cli_fixture.h"
#include "tests/support/threads.h"
#include "transports/zmq.h"

namespace thinwire::test {
namespace {

constexpr int kSites = 4;

class CliFar : public CliTest {
 protected:
  // A hub that is up for as long as this lives.
  struct Hub {
    explicit Hub(const ZmqHubOptions& options) : hub(options), thread([this] { hub.run(); }) {}
    ~Hub() { hub.stop(); }
    ZmqHub hub;
    std::jthread thread;
  };

  static Words train(const std::string& method, const Words& more) {
    Words words{
        "train",          "--method", method,    "--data", "text",         "--sites", "4",
        "--batch",        "8",        "--steps", "12",     "--eval-every", "6",       "--json",
        "--eval-windows", "4"};
    for (const char* set : {"model.layers=1", "model.width=64", "model.context=32"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static std::string hash_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    return json.is_array() && !json.empty() ? json[0].value("hash", "none") : "none";
  }

  std::vector<Outcome> run_sites(const std::string& method, const std::string& hub,
                                 const Words& more = {}) const {
    std::vector<Outcome> outcomes(kSites);
    run_threads(kSites, [&](int i) {
      const std::string name = "s" + std::to_string(i);
      Words words{"--site", name, "--hub", hub, "--out", name};
      words.insert(words.end(), more.begin(), more.end());
      if (!more.empty()) words.insert(words.end(), {"--keys", name + ".key"});
      outcomes[i] = run(train(method, words));
    });
    return outcomes;
  }
};

TEST_F(CliFar, SitesOverZeroMqEndWithTheBitsOfLoopback) {
  for (const std::string method : {"distro:delay=1", "adamw"}) {
    const std::string expected = hash_of(run(train(method, {"--out", "loopback"})));
    Hub hub({.listen = "tcp://127.0.0.1:0", .sites = kSites});
    for (const Outcome& outcome : run_sites(method, hub.hub.address())) {
      EXPECT_EQ(hash_of(outcome), expected) << method << "\n" << outcome.err;
    }
  }
}

TEST_F(CliFar, SitesWithKeysMeetAtAHubWithAList) {
  const ZmqKeys keys = make_zmq_keys();
  ZmqHubOptions options{.listen = "tcp://127.0.0.1:0", .keys = keys, .sites = kSites};
  for (int i = 0; i < kSites; ++i) {
    options.allowed.push_back(run({"keygen", "s" + std::to_string(i) + ".key"}).out.substr(0, 40));
  }
  Hub hub(options);
  const auto outcomes = run_sites("distro", hub.hub.address(), {"--hub-key", keys.public_key});
  for (const Outcome& outcome : outcomes) EXPECT_EQ(hash_of(outcome), hash_of(outcomes[0]));
}

TEST_F(CliFar, ASiteWithOtherSettingsIsToldTheDifference) {
  Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
  std::vector<Outcome> outcomes(2);
  run_threads(2, [&](int i) {
    const std::string name = "s" + std::to_string(i);
    Words words{"--site", name, "--hub", hub.hub.address(), "--out", name, "--connect-timeout",
                "5"};
    if (i == 1) words.insert(words.end(), {"--set", "optimizer.distro.k=9"});
    outcomes[i] = run(train("distro", words));
  });
  const std::string both = outcomes[0].err + outcomes[1].err;
  EXPECT_NE(both.find("k = 9"), std::string::npos) << both;
  EXPECT_NE(both.find("k = 8"), std::string::npos) << both;
  EXPECT_NE(outcomes[0].code, 0);
  EXPECT_NE(outcomes[1].code, 0);
}

TEST_F(CliFar, FlagsOfASiteBelongTogether) {
  expect_usage_error(train("distro", {"--out", "out", "--site", "a"}), "--hub");
  expect_usage_error(train("distro", {"--out", "out", "--hub", "tcp://127.0.0.1:1"}), "--site");
  expect_usage_error(train("distro", {"--out", "out", "--site", "a", "--hub", "tcp://127.0.0.1:1",
                                      "--seeds", "2"}),
                     "one seed");
  expect_usage_error(train("distro", {"--out", "out", "--site", "a", "--hub", "nonsense"}),
                     "tcp://");
}

TEST_F(CliFar, WithoutAHubItGivesUpWithItsOwnExitCode) {
  const Outcome outcome = run(train("distro", {"--out", "out", "--site", "a", "--hub",
                                               "tcp://127.0.0.1:1", "--connect-timeout", "1"}));
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.err.find("tcp://127.0.0.1:1"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace thinwire::test
