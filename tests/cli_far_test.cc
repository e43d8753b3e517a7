// Sites as real processes: the same run over ZeroMQ and over loopback ends with equal bits.
#include <gtest/gtest.h>

#include "tests/support/cli_far_fixture.h"

namespace thinwire::test {
namespace {

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
  for (const std::string method : {"distro", "mural"}) {
    const std::string usual = method == "distro" ? "k = 8" : "k = 16";
    Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
    std::vector<Outcome> outcomes(2);
    run_threads(2, [&](int i) {
      const std::string name = "s" + std::to_string(i);
      Words words{
          "--site", name, "--hub", hub.hub.address(), "--out", method + name, "--connect-timeout",
          "5"};
      if (i == 1) words.insert(words.end(), {"--set", "optimizer." + method + ".k=9"});
      outcomes[i] = run(train(method, words));
    });
    const std::string both = outcomes[0].err + outcomes[1].err;
    EXPECT_NE(both.find("k = 9"), std::string::npos) << both;
    EXPECT_NE(both.find(usual), std::string::npos) << both;
    EXPECT_NE(outcomes[0].code, 0);
    EXPECT_NE(outcomes[1].code, 0);
  }
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
