// thinwire hub, keygen and status as programs: what they print, refuse and leave behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/status_command.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/hub_client.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

class CliHub : public CliTest {};

TEST_F(CliHub, KeygenPrintsThePublicKeyAndKeepsTheFilePrivate) {
  const Outcome outcome = run({"keygen", "site.key"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  ASSERT_EQ(outcome.out.size(), 41u) << outcome.out;
  EXPECT_EQ(outcome.out, read_zmq_keys(path("site.key")).public_key + "\n");
  EXPECT_EQ(std::filesystem::status(path("site.key")).permissions(), std::filesystem::perms(0600));
}

TEST_F(CliHub, KeygenReplacesNoFile) {
  write("site.key", "precious");
  expect_refused(launch({"keygen", "site.key"}), 1, "site.key exists");
  EXPECT_EQ(read("site.key"), "precious");
  expect_refused(launch({"keygen", "nowhere/site.key"}), 1, "nowhere/site.key: No such file");
  expect_usage_error({"keygen"}, "FILE");
}

TEST_F(CliHub, ASignalEndsItWithinTwoSeconds) {
  for (const int number : {SIGINT, SIGTERM}) {
    Launch hub = launch({"hub", "--listen", "tcp://127.0.0.1:0", "--metrics", "127.0.0.1:0"});
    hub.signal = number;
    hub.signal_when = "listening on tcp://127.0.0.1:";
    const Outcome outcome = run_program(hub);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_LT(outcome.after_s, 2.0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("metrics at http://127.0.0.1:"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("stopped"), std::string::npos) << outcome.err;
  }
}

TEST_F(CliHub, ListensForOthersWithKeysAlone) {
  write("allow", "# nobody yet\n");
  const Outcome keygen = run({"keygen", "hub.key"});
  expect_usage_error({"hub", "--listen", "tcp://*:0"}, "--keys, --allow");
  expect_usage_error({"hub", "--listen", "tcp://*:0", "--keys", "hub.key", "--allow", "allow"},
                     "names none");
  write("allow", keygen.out);
  Launch hub = launch({"hub", "--listen", "tcp://*:0", "--keys", "hub.key", "--allow", "allow"});
  hub.signal = SIGTERM;
  hub.signal_when = "public key " + keygen.out.substr(0, 40);
  EXPECT_EQ(run_program(hub).code, 0);
}

TEST_F(CliHub, SaysWhichAddressIsInUse) {
  RunningHub first;
  Launch second = launch({"hub", "--listen", first->address()});
  expect_refused(second, 1, first->address() + ": Address already in use");
  const Outcome outcome = run_program(second);
  EXPECT_LT(outcome.after_s, 2.0);
}

TEST_F(CliHub, RefusesWhatMakesNoSense) {
  expect_usage_error({"hub", "--listen", "localhost:5555"}, "write tcp://HOST:PORT");
  expect_usage_error({"hub", "--listen", "tcp://localhost:99999"}, "from 1 to 65535");
  expect_usage_error({"hub", "--sites", "0"}, "--sites");
  expect_usage_error({"hub", "--sites", "two"}, "--sites");
  expect_usage_error({"hub", "--peer-timeout", "0"}, "--peer-timeout");
  expect_usage_error({"hub", "--peer-timeout", "nan"}, "--peer-timeout");
  expect_usage_error({"hub", "--round-deadline", "-1"}, "--round-deadline");
  expect_usage_error({"hub", "--metrics", "here"}, "here");
  expect_refused(launch({"hub", "--keys", "absent"}), 1, "absent: No such file");
  write("allow", "garbage\n");
  expect_refused(launch({"hub", "--allow", "allow"}), 1, "allow:1: no public key");
  expect_usage_error(
      {"hubb"}, "known: compare, train, launch, optimizers, hub, keygen, status, inspect, export");
  expect_usage_error({"status", "--hub", "tcp://hub.example.org:5555"}, "--keys FILE --hub-key");
  expect_usage_error({"status", "--hub-key", std::string(40, 'a')}, "go together");
}

TEST_F(CliHub, StatusShowsTheRunWithin80Columns) {
  RunningHub hub;
  HubClient a(hub->address());
  HubClient b(hub->address());
  a.say(hello_of("amsterdam-with-a-rather-long-name"));
  b.say(hello_of("b"));
  ASSERT_TRUE(a.wait_for<hub::Welcome>() && b.wait_for<hub::Welcome>());
  a.say_bytes("garbage");
  a.say(hub::Ping{});
  ASSERT_TRUE(a.wait_for<hub::Pong>());

  const Outcome table = run({"status", "--hub", hub->address()});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("\namsterdam-wit.. "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\n  garbage "), std::string::npos) << table.out;
  std::istringstream lines(table.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;

  const Outcome json = run({"status", "--hub", hub->address(), "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["sites"][1]["name"], "b");
}

TEST_F(CliHub, StatusShowsWhoIsThereBeforeTheRunBegins) {
  RunningHub hub({.sites = 2});
  HubClient a(hub->address());
  a.say(hello_of("a"));
  a.say(hub::Ping{});
  ASSERT_TRUE(a.wait_for<hub::Pong>());
  const Outcome table = run({"status", "--hub", hub->address()});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("the run has not begun, sites so far: 1"), std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("\na                 - waits "), std::string::npos) << table.out;
}

TEST_F(CliHub, StatusNeedsAKeyThatTheHubKnows) {
  const ZmqKeys keys = make_zmq_keys();
  const std::string site = run({"keygen", "site.key"}).out.substr(0, 40);
  const std::string stranger = run({"keygen", "stranger.key"}).out.substr(0, 40);
  RunningHub hub({.keys = keys, .allowed = {site}});
  const auto ask = [&](const std::string& file, const std::string& key) {
    return launch({"status", "--hub", hub->address(), "--keys", file, "--hub-key", key});
  };
  EXPECT_EQ(run_program(ask("site.key", keys.public_key)).code, 0);
  expect_refused(ask("stranger.key", keys.public_key), 1, "refused this key; is " + stranger);
  EXPECT_LT(run_program(ask("site.key", stranger)).after_s, 2.0);
  expect_refused(ask("site.key", stranger), 1, "is --hub-key its public key");
  expect_refused(launch({"status", "--hub", hub->address()}), 1, "it may want keys");
}

TEST_F(CliHub, StatusSaysWhenNoHubAnswers) {
  expect_refused(launch({"status", "--hub", "tcp://127.0.0.1:1"}), 1,
                 "no hub answers at tcp://127.0.0.1:1 within 5 s");
}

TEST(StatusTable, KeepsATerminalSafeAndRefusesWhatIsNone) {
  nlohmann::json status = {{"run", "r\x1b[2J"},
                           {"epoch", 1},
                           {"begun", false},
                           {"first_open_round", 0},
                           {"rounds_closed", 0},
                           {"closed_by_deadline", 0},
                           {"sites", nlohmann::json::array()},
                           {"refused", nlohmann::json::object()}};
  EXPECT_NE(app::status_table(status.dump()).find("run r?[2J"), std::string::npos);
  EXPECT_THROW(app::status_table("{}"), Error);
  EXPECT_THROW(app::status_table("<html>"), Error);
}

}  // namespace
}  // namespace thinwire::test
