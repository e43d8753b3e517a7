// What goes wrong on the way to a run: names, addresses, clocks, sites that do not fit together.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "tests/support/cli_far_fixture.h"
#include "tests/support/hub_process.h"

namespace thinwire::test {
namespace {

class CliSmallPrint : public CliFar {
 protected:
  // A hub as a program, whose words are read after it has ended; it ends at `until`.
  Launch hub(const std::string& address, const Words& more, const std::string& until) const {
    Words words{"hub", "--listen", address};
    words.insert(words.end(), more.begin(), more.end());
    Launch hub = launch(words);
    hub.signal = SIGTERM;
    hub.signal_when = until;
    return hub;
  }

  // A hub as a program that outlives the sites; then it is ended and gives its words.
  class HubWithLog {
   public:
    HubWithLog(const Launch& launch, std::string log) : log_(std::move(log)) {
      const int file = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      process_ = program_detail::spawn(launch, file, file);
      ::close(file);
    }
    ~HubWithLog() { end(); }
    std::string end() {
      if (process_ >= 0) ::kill(process_, SIGTERM);
      if (process_ >= 0) ::waitpid(std::exchange(process_, -1), nullptr, 0);
      std::ifstream in(log_, std::ios::binary);
      return {std::istreambuf_iterator<char>(in), {}};
    }

   private:
    std::string log_;
    pid_t process_ = -1;
  };

  static void expect_holds(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << "lacks: " << part;
  }
};

TEST_F(CliSmallPrint, AHostThatCannotBeResolvedIsNamedAtOnceAndAtTheEnd) {
  const std::string key = run({"keygen", "a.key"}).out.substr(0, 40);
  Launch site = this->site("a", "tcp://nowhere.invalid:5555",
                           {"--connect-timeout", "2", "--keys", "a.key", "--hub-key", key});
  const Outcome outcome = run_program(site);
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_LT(outcome.after_s, 8.0);
  const std::string why = "the host 'nowhere.invalid' cannot be resolved: ";
  const std::size_t first = outcome.err.find(why);
  ASSERT_NE(first, std::string::npos) << outcome.err;
  const std::size_t last = outcome.err.rfind("thinwire: no hub answered within 2 s");
  ASSERT_NE(last, std::string::npos) << outcome.err;
  EXPECT_LT(first, last);
  EXPECT_NE(outcome.err.find(why, last), std::string::npos) << outcome.err;
}

TEST_F(CliSmallPrint, StatusNamesAHostThatCannotBeResolved) {
  expect_usage_error({"status", "--hub", "tcp://0.0.0.0:5555"}, "cannot be dialled");
  const std::string key(40, 'a');
  run({"keygen", "site.key"});
  expect_refused(launch({"status", "--hub", "tcp://nowhere.invalid:5555", "--keys", "site.key",
                         "--hub-key", key}),
                 1, "the host 'nowhere.invalid' cannot be resolved: ");
}

TEST_F(CliSmallPrint, AHubThatIsNotUpYetIsTriedAgain) {
  const std::string address = free_address();
  Launch early = site("a", address, {"--sites", "1", "--connect-timeout", "30"});
  std::optional<HubProcess> hub;
  early.signal_when = "waiting for the run to begin";
  early.then = [&] { hub.emplace(address, 1, 10.0); };
  EXPECT_NE(hash_of(run_program(early)), "none");
}

TEST_F(CliSmallPrint, AHubSaysWhoCannotComeToIt) {
  const std::string key = run({"keygen", "hub.key"}).out;
  write("allow", key);
  const Words keys{"--keys", "hub.key", "--allow", "allow"};
  expect_holds(run_program(hub("tcp://127.0.0.1:0", keys, "this machine alone can dial")).err,
               "tcp://*:PORT");
  expect_usage_error(
      {"hub", "--listen", "tcp://192.0.2.1:5555", "--keys", "hub.key", "--allow", "allow"},
      "'192.0.2.1' is none of this machine's addresses");
  expect_usage_error(
      {"hub", "--listen", "tcp://nowhere.invalid:5555", "--keys", "hub.key", "--allow", "allow"},
      "the host 'nowhere.invalid' cannot be resolved");
  expect_usage_error(
      {"hub", "--listen", "tcp://[fe80::1]:5555", "--keys", "hub.key", "--allow", "allow"},
      "needs its interface, as in tcp://[fe80::1%eth0]:PORT");
  const Outcome open = run_program(hub("tcp://*:0", keys, "sites "));
  EXPECT_EQ(open.code, 0) << open.err;
  // Never an address that is good on this machine or cable alone.
  for (const char* useless : {"dial tcp://127.", "tcp://[::1]", "tcp://169.254.", "tcp://[fe80"}) {
    EXPECT_EQ(open.err.find(useless), std::string::npos) << open.err;
  }
}

TEST_F(CliSmallPrint, ASiteIsToldWhichAddressesAreNone) {
  const auto with = [&](const std::string& hub) {
    return train("distro", {"--out", "out", "--site", "a", "--hub", hub});
  };
  expect_usage_error(with("tcp://fe80::1:5555"), "needs its interface");
  expect_usage_error(with("tcp://[::]:5555"), "cannot be dialled");
  expect_usage_error(with("tcp://*:5555"), "cannot be dialled");
  expect_usage_error(with("tcp://[::1:5555"), "tcp://[ADDRESS]:PORT");
}

TEST_F(CliSmallPrint, IPv6IsTakenWithAndWithoutBrackets) {
  for (const std::string host : {"[::1]", "::1"}) {
    std::optional<Hub> hub;
    try {
      hub.emplace(ZmqHubOptions{.listen = "tcp://" + host + ":0", .sites = 1});
    } catch (const Error& error) {
      GTEST_SKIP() << "no IPv6 here: " << error.what();
    }
    const std::string port = hub->hub.address().substr(hub->hub.address().rfind(':'));
    EXPECT_EQ(run({"status", "--hub", "tcp://" + host + port}).code, 0) << host;
    EXPECT_NE(hash_of(run_program(site("a", "tcp://" + host + port, {"--sites", "1"}))), "none");
  }
}

TEST_F(CliSmallPrint, AnotherRunIsNamedOnBothSidesWithinTwoSeconds) {
  const std::string address = free_address();
  HubWithLog hub(this->hub(address, {"--run", "red"}, ""), path("hub.log"));
  const Outcome outcome = run_program(site("a", address, {"--run", "blue"}));
  const std::string why = "the run ids differ: the hub serves \"red\", site a asks for \"blue\"";
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  expect_holds(outcome.err, why);
  expect_holds(hub.end(), why);
  EXPECT_LT(outcome.after_s, 3.0);  // of which the start of two programs
}

TEST_F(CliSmallPrint, AnotherModelIsNamedOnBothSides) {
  for (const auto& [setting, other] : std::vector<std::pair<std::string, std::string>>{
           {"model.width=128", "width = 128"}, {"model.layers=2", "layers = 2"}}) {
    const std::string address = free_address();
    Launch second = site("b", address, {"--connect-timeout", "3", "--set", setting});
    HubWithLog hub(this->hub(address, {}, ""), path("hub.log"));
    const auto outcomes = run_all({site("a", address, {"--connect-timeout", "3"}), second});
    const std::string both = outcomes[0].err + outcomes[1].err;
    const std::string log = hub.end();
    expect_holds(log, "the settings differ: the run has ");
    expect_holds(log, other);
    expect_holds(both, "refuses this site: the settings differ: the run has ");
    expect_holds(both, other);
    EXPECT_LT(std::min(outcomes[0].after_s, outcomes[1].after_s), 2.5);
  }
}

TEST_F(CliSmallPrint, TheSecondSiteOfANameIsRefusedAndTheFirstUnharmed) {
  const std::string address = free_address();
  HubProcess hub(address, 2, 10.0);
  Launch second = site("a", address, {"--sites", "2"});
  second
      .words[std::find(second.words.begin(), second.words.end(), "out-a") - second.words.begin()] =
      "out-second";
  second.signal = SIGKILL;
  second.signal_when = "the site a is already here; every site needs a name of its own";
  Launch first = site("a", address, {"--sites", "2"});
  Launch other = site("b", address, {"--sites", "2"});
  // Whichever of the two comes first is the site.
  std::vector<Outcome> outcomes(3);
  Launch* twins[] = {&first, &second};
  twins[0]->signal = SIGKILL;
  twins[0]->signal_when = second.signal_when;
  run_threads(3, [&](int i) {
    if (i < 2) outcomes[i] = run_program(*twins[i]);
    // The third begins the run when the dispute is settled.
    if (i == 2) {
      for (int tries = 0; tries < 200; ++tries) {
        if (run({"status", "--hub", address, "--json"}).out.find("name taken") !=
            std::string::npos) {
          break;
        }
      }
      outcomes[2] = run_program(other);
    }
  });
  const int refused = outcomes[0].code == 0 ? 1 : 0;
  EXPECT_EQ(outcomes[refused].code, -1) << outcomes[refused].err;
  expect_holds(outcomes[refused].err, second.signal_when);
  EXPECT_EQ(hash_of(outcomes[1 - refused]), hash_of(outcomes[2]));
}

TEST_F(CliSmallPrint, OneSiteAloneTrains) {
  Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 1});
  const std::string alone = hash_of(run(train("distro", {"--out", "loopback", "--sites", "1"})));
  EXPECT_EQ(hash_of(run_program(site("a", hub.hub.address(), {"--sites", "1"}))), alone);
}

TEST_F(CliSmallPrint, LogsAreJsonObjectsWhenAsked) {
  const std::string address = free_address();
  const auto outcomes = run_all({hub(address, {"--sites", "1", "--log-json"}, "says goodbye"),
                                 site("a", address, {"--sites", "1", "--log-json"})});
  EXPECT_NE(hash_of(outcomes[1]), "none");
  bool goodbye = false;
  for (const Outcome& outcome : outcomes) {
    std::istringstream lines(outcome.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("report: ") || line.find("% ") == 3) continue;  // progress
      const auto json = nlohmann::json::parse(line, nullptr, false);
      ASSERT_TRUE(json.is_object()) << line;
      const bool of_site = json.value("site", "") == "a";
      EXPECT_TRUE(of_site || json.value("from", "") == "hub") << line;
      goodbye = goodbye || (of_site && json.value("text", "").find("goodbye") != std::string::npos);
    }
  }
  EXPECT_TRUE(goodbye) << outcomes[0].err;
}

TEST_F(CliSmallPrint, AClockThatIsOffByAQuarterOfAnHourMattersToNobody) {
  if (std::string(THINWIRE_CLOCK_SHIFT).empty()) GTEST_SKIP() << "no preloading in this build";
  const std::string expected = hash_of(run(train("distro", {"--out", "loopback", "--sites", "2"})));
  Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
  Launch late = site("a", hub.hub.address(), {"--sites", "2"});
  late.environment = {"LD_PRELOAD=" THINWIRE_CLOCK_SHIFT, "THINWIRE_CLOCK_SHIFT_S=-900"};
  Launch early = site("b", hub.hub.address(), {"--sites", "2"});
  early.environment = {"LD_PRELOAD=" THINWIRE_CLOCK_SHIFT, "THINWIRE_CLOCK_SHIFT_S=900"};
  const auto outcomes = run_all({late, early});
  for (const Outcome& outcome : outcomes) EXPECT_EQ(hash_of(outcome), expected) << outcome.err;
  // The shift took hold: the times of the two logs lie half an hour apart.
  const auto minutes = [](const std::string& err) {
    return std::stoi(err.substr(0, 2)) * 60 + std::stoi(err.substr(3, 2));
  };
  const int apart = minutes(outcomes[1].err) - minutes(outcomes[0].err);
  EXPECT_NEAR((apart + 24 * 60) % (24 * 60), 30, 1);
}

}  // namespace
}  // namespace thinwire::test
