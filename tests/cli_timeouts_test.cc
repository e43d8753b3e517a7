// What follows from the timeouts that are given, and what contradicts them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/cli_fixture.h"
#include "transports/timeouts_internal.h"

namespace thinwire::test {
namespace {

using Json = nlohmann::json;

class CliTimeouts : public CliTest {
 protected:
  Json json_of(const Words& words) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(CliTimeouts, AreShownWithoutDataOrHub) {
  const Outcome site = run({"train", "--print-timeouts", "--peer-timeout", "40", "--hub-timeout",
                            "300", "--data", "absent"});
  EXPECT_EQ(site.code, 0) << site.err;
  EXPECT_EQ(site.err, "");
  EXPECT_NE(site.out.find("sign of life of a site "), std::string::npos) << site.out;
  const Outcome hub = run({"hub", "--print-timeouts", "--listen", "tcp://*:1"});
  EXPECT_EQ(hub.code, 0) << hub.err;
  EXPECT_NE(hub.out.find("a silent site is taken for dead "), std::string::npos) << hub.out;
  // Aligned: every value ends in the same column.
  for (const std::string& text : {site.out, hub.out}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      EXPECT_EQ(line.substr(47, 4), " s  ") << line;
    }
  }
  EXPECT_EQ(names_in("out"), std::set<std::string>());
}

TEST_F(CliTimeouts, FollowFromTheOneKnob) {
  const Json site = json_of({"train", "--print-timeouts", "--json", "--peer-timeout", "2",
                             "--hub-timeout", "50", "--connect-timeout", "7"});
  EXPECT_EQ(site["peer_timeout_s"], 2.0);
  EXPECT_EQ(site["hub_timeout_s"], 50.0);
  EXPECT_EQ(site["connect_timeout_s"], 7.0);
  EXPECT_EQ(site["ping_each_s"], timeouts::ping_each(2.0));
  EXPECT_EQ(site["repeat_each_s"], timeouts::repeat_each(2.0));
  EXPECT_EQ(site["hub_dead_s"], timeouts::hub_dead(2.0));
  EXPECT_EQ(site["dial_s"], timeouts::dial_patience(2.0));
  EXPECT_EQ(site["handshake_s"], timeouts::kHandshake);
  EXPECT_EQ(site["heartbeat_patience_s"], timeouts::heartbeat_patience(2.0));
  EXPECT_EQ(site["hello_each_s"], timeouts::kHelloEach);
  const Json hub = json_of(
      {"hub", "--print-timeouts", "--json", "--peer-timeout", "2", "--round-deadline", "0.7"});
  EXPECT_EQ(hub["site_dead_s"], timeouts::site_dead(2.0));
  EXPECT_EQ(hub["round_deadline_s"], 0.7);
  EXPECT_EQ(hub["round_deadline_min_s"], 0.7);
  EXPECT_EQ(hub["own_stall_s"], timeouts::own_stall(2.0));
  EXPECT_EQ(hub["restart_wait_s"], timeouts::restart_wait(2.0));
}

TEST_F(CliTimeouts, ThatContradictEachOtherAreNamedWithTheirValues) {
  const Words site{"train", "--data",           "text", "--out", "out", "--site", "a",
                   "--hub", "tcp://127.0.0.1:1"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_usage_error(with(site, {"--hub-timeout", "5"}),
                     "--hub-timeout 5 s contradicts --peer-timeout 10 s");
  expect_usage_error(with(site, {"--peer-timeout", "200"}),
                     "--hub-timeout 120 s contradicts --peer-timeout 200 s");
  expect_usage_error(with(site, {"--connect-timeout", "0"}),
                     "--connect-timeout lies between 0.1 and 86400 seconds, not 0");
  expect_usage_error(with(site, {"--peer-timeout", "-3"}), "not -3");
  expect_usage_error({"hub", "--round-deadline", "2"},
                     "--round-deadline 2 s contradicts --peer-timeout 10 s: a site gives a sign of "
                     "life every 2.5 s");
  expect_usage_error({"hub", "--round-deadline", "inf"}, "--round-deadline lies between");
  // Those that are only shown are judged as well.
  expect_usage_error({"train", "--print-timeouts", "--hub-timeout", "5"}, "contradicts");
  expect_usage_error({"hub", "--print-timeouts", "--peer-timeout", "300"}, "contradicts");
}

}  // namespace
}  // namespace thinwire::test
