// SIGINT and SIGTERM of a site: it ends soon, says goodbye, and the others do not wait for it.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>

#include "tests/support/cli_far_fixture.h"
#include "transports/zmq_status_internal.h"

namespace thinwire::test {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::seconds;

constexpr seconds kSoon{5};  // from the signal to the end

// A program that is killed when the test ends.
class Process {
 public:
  explicit Process(const Launch& launch) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    id_ = program_detail::spawn(launch, null, null);
    ::close(null);
  }
  ~Process() {
    if (id_ < 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { ::kill(id_, number); }
  // The exit code, -1 when a signal ended it; nothing when it lasts longer.
  std::optional<int> wait(seconds most) {
    const auto end = Clock::now() + most;
    while (Clock::now() < end) {
      int status = 0;
      if (::waitpid(id_, &status, WNOHANG) == id_) {
        id_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      ::poll(nullptr, 0, 10);
    }
    return std::nullopt;
  }

 private:
  pid_t id_ = -1;
};

class CliStop : public CliFar {
 protected:
  // Whoever is only silent is missed much later than these tests last.
  explicit CliStop(int sites = 3)
      : hub({.listen = "tcp://127.0.0.1:0",
             .sites = sites,
             .peer_timeout = seconds(100),
             .round_deadline = seconds(100)}) {}

  Json status() const {
    ZmqStatusOptions options;
    options.hub = hub.hub.address();
    return Json::parse(ask_zmq_status(options));
  }

  bool comes_true(const std::function<bool(const Json&)>& is, seconds most = seconds(20)) const {
    const auto end = Clock::now() + most;
    while (Clock::now() < end) {
      if (is(status())) return true;
      ::poll(nullptr, 0, 20);
    }
    return false;
  }

  static bool is_active(const Json& status, const std::string& name) {
    for (const Json& site : status["sites"]) {
      if (site["name"] == name) return site["active"].get<bool>();
    }
    return false;
  }

  // Takes part in a run of 3 sites that lasts.
  Launch long_site(const std::string& name, const std::string& steps = "100000") const {
    return site(name, hub.hub.address(),
                {"--sites", "3", "--batch", "6", "--steps", steps, "--eval-every", steps});
  }

  Hub hub;
};

class CliStopAlone : public CliStop {
 protected:
  CliStopAlone() : CliStop(1) {}
};

TEST_F(CliStop, WhileItWaitsForTheRunToBegin) {
  for (const int number : {SIGINT, SIGTERM}) {
    Process site(long_site("a"));
    ASSERT_TRUE(comes_true([](const Json& status) { return status["sites"].size() == 1; }));
    site.signal(number);
    EXPECT_EQ(site.wait(kSoon), 128 + number);
    // A goodbye: the place is free at once.
    EXPECT_TRUE(comes_true([](const Json& status) { return status["sites"].empty(); }, seconds(2)));
  }
}

TEST_F(CliStop, InTheMiddleOfARunTheOthersGoOnAtOnce) {
  Process a(long_site("a", "200"));
  Process b(long_site("b", "200"));
  Process c(long_site("c", "200"));
  ASSERT_TRUE(comes_true([](const Json& status) { return status["first_open_round"] > 3; }));
  c.signal(SIGTERM);
  EXPECT_EQ(c.wait(kSoon), 128 + SIGTERM);
  EXPECT_TRUE(comes_true([](const Json& now) { return !is_active(now, "c"); }, seconds(2)));
  EXPECT_EQ(a.wait(seconds(60)), 0);
  EXPECT_EQ(b.wait(seconds(60)), 0);
}

TEST_F(CliStop, WhileItWaitsForTheFramesOfOthers) {
  Process c(long_site("c"));
  ASSERT_TRUE(comes_true([](const Json& status) { return status["sites"].size() == 1; }));
  c.signal(SIGSTOP);  // the first round waits for it until the deadline
  Process a(long_site("a"));
  Process b(long_site("b"));
  ASSERT_TRUE(comes_true([](const Json& status) { return is_active(status, "a"); }));
  a.signal(SIGINT);
  EXPECT_EQ(a.wait(kSoon), 128 + SIGINT);
  EXPECT_TRUE(comes_true([](const Json& now) { return !is_active(now, "a"); }, seconds(2)));
  EXPECT_TRUE(is_active(status(), "b"));
}

TEST_F(CliStopAlone, ASecondSignalEndsItAtOnce) {
  Process a(site("a", hub.hub.address(),
                 {"--sites", "1", "--steps", "100000", "--eval-every", "100000"}));
  ASSERT_TRUE(comes_true([](const Json& status) { return status["first_open_round"] > 3; }));
  a.signal(SIGSTOP);  // both arrive together
  a.signal(SIGTERM);
  a.signal(SIGINT);
  a.signal(SIGCONT);
  const std::optional<int> code = a.wait(seconds(1));
  EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGINT) << code.value_or(0);
}

}  // namespace
}  // namespace thinwire::test
