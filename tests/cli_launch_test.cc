// `thinwire launch`: ranks that fail, are killed, and are left alone.
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

#include "tests/support/near_fixture.h"

namespace thinwire::test {
namespace {

class CliLaunch : public CliNear {
 protected:
  // A script in place of the program: each rank runs it.
  Launch script(int ranks, const std::string& text, const Words& more = {}) const {
    Words words{"launch", "--ranks", std::to_string(ranks)};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", "sh", "-c", text});
    return launch(words);
  }
};

bool runs(const std::string& process) { return ::kill(std::stoi(process), 0) == 0; }

// Numbers after "pid " in the text.
std::vector<std::string> processes_in(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find("pid ", at)) != text.npos; at += 4) {
    found.push_back(text.substr(at + 4, text.find('\n', at) - at - 4));
  }
  return found;
}

TEST_F(CliLaunch, EachRankKnowsItsPlaceAndEachLineItsRank) {
  const Outcome outcome = run_program(
      script(3, "echo $RANK/$WORLD_SIZE/$LOCAL_RANK/$LOCAL_WORLD_SIZE/$MASTER_ADDR; printf end >&2",
             {"--port", "4711"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* rank : {"0", "1", "2"}) {
    const std::string number(rank);
    const std::string prefix = number == "0" ? "" : "[rank " + number + "] ";
    const std::string line = prefix + number + "/3/" + number + "/3/127.0.0.1\n";
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.err.find("[rank " + number + "] end\n"), std::string::npos) << outcome.err;
  }
}

TEST_F(CliLaunch, WhenOneFailsTheOthersAreEndedAndItsCodeIsGiven) {
  const Outcome outcome = run_program(script(3, "[ $RANK = 1 ] && exit 7; exec sleep 60"));
  EXPECT_EQ(outcome.code, 7);
  EXPECT_NE(outcome.err.find("launch: rank 1 failed with exit code 7; ending the others"),
            std::string::npos)
      << outcome.err;
  EXPECT_LT(outcome.after_s, 5.0);
}

// A number that is free could become a stranger's, whom signals to the rank's group would reach.
TEST_F(CliLaunch, TheNumberOfAnEndedRankStaysTaken) {
  const Outcome outcome = run_program(
      script(2,
             "[ $RANK = 0 ] && echo $$ > part && mv part first && exit 0; "
             "while [ ! -e first ]; do sleep 0.02; done; sleep 0.4; kill -0 $(cat first)"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(CliLaunch, ARankThatPrintsWithoutEndLeavesTheOthersTheirTurn) {
  Launch one = script(2, "[ $RANK = 0 ] && exec yes; sleep 0.2; exit 7");
  one.output = "/dev/null";
  one.patience_s = 10;
  EXPECT_EQ(run_program(one).code, 7);
}

TEST_F(CliLaunch, ARankThatIgnoresTheEndIsKilledAfterTheGrace) {
  const Outcome outcome = run_program(script(
      2, "trap '' TERM; [ $RANK = 1 ] && kill -9 $$; for i in 1 2 3 4 5 6 7 8 9; do sleep 9; done",
      {"--grace", "0.3"}));
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_NE(outcome.err.find("rank 1 was ended by signal 9"), std::string::npos) << outcome.err;
  EXPECT_LT(outcome.after_s, 6.0);
}

TEST_F(CliLaunch, AKilledRankOfARunIsNamedByTheOthersAndTheLaunch) {
  // Long enough to be killed in.
  const std::string run = std::string(THINWIRE_PROGRAM) +
                          " train --method adamw --sites 1 --batch 8 --steps 1000000 --data text"
                          " --eval-every 500000 --eval-windows 8 --set model.layers=1"
                          " --set model.width=64 --set model.context=32";
  Launch one = script(3, "[ $RANK = 2 ] && echo $$ > victim; exec " + run + " --batch 6");
  one.signal_when = "loss";
  one.then = [&] { ::kill(std::stoi(read("victim")), SIGKILL); };
  const Outcome outcome = run_program(one);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  for (const char* rank : {"0", "1"}) {
    const std::string line = "[rank " + std::string(rank) + "] thinwire: ";
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
  }
  EXPECT_NE(outcome.err.find(": rank 2 is gone: its connection closed in "), std::string::npos)
      << outcome.err;
  EXPECT_LT(outcome.after_s, 4.0);
}

TEST_F(CliLaunch, ASignalReachesAllRanksWhoLeaveAtTheSameStep) {
  Launch one = launch({"launch", "--ranks", "2", "--", THINWIRE_PROGRAM});
  const Words words = one_site("distro", {"--steps", "1000000", "--eval-every", "500000"});
  one.words.insert(one.words.end(), words.begin(), words.end());
  one.signal = SIGTERM;
  one.signal_when = "loss";
  const Outcome outcome = run_program(one);
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
  for (const char* rank : {"[rank 0] ", "[rank 1] "}) {
    EXPECT_NE(outcome.err.find(rank + std::string("thinwire: stopped; nothing was written")),
              std::string::npos)
        << outcome.err;
  }
  EXPECT_LT(outcome.after_s, 5.0);
}

TEST_F(CliLaunch, NoRankOutlivesALaunchThatIsKilled) {
  Launch one = script(2, "echo pid $$ >&2; exec sleep 60");
  one.signal = SIGKILL;
  one.signal_when = "[rank 1] pid";
  const Outcome outcome = run_program(one);
  const auto processes = processes_in(outcome.err);
  for (const std::string& process : processes) {
    for (int turn = 0; turn < 200 && runs(process); ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(runs(process)) << process;
  }
  EXPECT_FALSE(processes.empty());
}

TEST_F(CliLaunch, RefusesWhatCannotBeStarted) {
  expect_usage_error({"launch", "--ranks", "2"}, "launch needs what each rank is to run");
  expect_usage_error({"launch", "--ranks", "0", "--", "true"}, "--ranks 0: give 1 to 1024 ranks");
  expect_usage_error({"launch", "--ranks", "x", "--", "true"}, "--ranks");
  expect_usage_error({"launch", "--", "true"}, "--ranks");
  expect_usage_error({"launch", "--ranks", "2", "--", "no-such-program"},
                     "cannot start 'no-such-program': No such file or directory");
  expect_usage_error({"launch", "--ranks", "2", "--", path("text")}, "Permission denied");
}

}  // namespace
}  // namespace thinwire::test
