// What a person sees while a run goes on, and how it is stopped.
#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

class CliTerminal : public CliTest {
 protected:
  static Words endless() {
    return small_run("out", {"--methods", "distro", "--steps", "100000000", "--ranks", "2",
                             "--eval-every", "100000000"});
  }

  Outcome stop(int signal, bool terminal) const {
    Launch long_run = launch(endless());
    long_run.signal = signal;
    long_run.signal_when = "elapsed";
    long_run.terminal = terminal;
    return run_program(long_run);
  }
};

TEST_F(CliTerminal, StopsAtASignalAndWritesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Outcome outcome = stop(signal, false);
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_LT(outcome.after_s, 5.0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.ends_with("\nthinwire: stopped; nothing was written\n")) << outcome.err;
    EXPECT_EQ(names_in("out"), std::set<std::string>());
  }
}

TEST_F(CliTerminal, WipesTheBarBeforeItSaysThatItWasStopped) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const Outcome outcome = stop(SIGINT, true);
  EXPECT_EQ(outcome.code, 128 + SIGINT);
  EXPECT_NE(outcome.err.find("\r\x1b[Kthinwire: stopped; nothing was written\r\n"),
            std::string::npos)
      << outcome.err;
}

TEST_F(CliTerminal, WritesPlainLinesOfProgressIntoAFile) {
  const Outcome outcome = run(small_run("out"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err.find_first_of("\r\x1b"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("100%"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("distro seed 1  loss "), std::string::npos) << outcome.err;
}

TEST_F(CliTerminal, RedrawsOneLineOnATerminal) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  Launch shown = launch(small_run("out", {"--json"}));
  shown.terminal = true;
  const Outcome outcome = run_program(shown);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("\r["), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("100%"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.substr(0, outcome.err.find("report: ")).find('\n'),
            outcome.err.find("report: ") - 1)
      << "one line, however often it is drawn: " << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("[\n")) << "the bar stays out of the result";
}

TEST_F(CliTerminal, WritesPlainLinesOnADumbTerminal) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  Launch shown = launch(small_run("out"));
  shown.terminal = true;
  shown.environment = {"TERM=dumb"};
  EXPECT_EQ(run_program(shown).err.find('\x1b'), std::string::npos);
}

TEST_F(CliTerminal, ColoursWarningsOnlyWhereColourIsWelcome) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  Launch shown = launch(small_run("out", {"--methods", "sgd", "--lr", "sgd=1e30"}));
  shown.terminal = true;
  const std::string colour = "\x1b[33m";
  const std::string plain = run_program(shown).err;
  EXPECT_NE(plain.find("\r\x1b[K"), std::string::npos);
  EXPECT_NE(plain.find(colour), std::string::npos) << plain;
  shown.environment = {"NO_COLOR=1"};
  const std::string quiet = run_program(shown).err;
  EXPECT_NE(quiet.find("the gradient is not finite"), std::string::npos) << quiet;
  EXPECT_EQ(quiet.find("\x1b[3"), std::string::npos) << quiet;
  EXPECT_EQ(quiet.find("\x1b[1"), std::string::npos) << quiet;
}

}  // namespace
}  // namespace thinwire::test
