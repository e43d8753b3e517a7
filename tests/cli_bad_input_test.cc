#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

class CliBadInput : public CliTest {
 protected:
  // The program as a user without rights; root would read and write everything.
  Launch as_nobody(const Words& words) const {
    Launch result = launch(words);
    if (::geteuid() != 0) return result;
    const std::string copy = path("program");
    fs::copy_file(THINWIRE_PROGRAM, copy, fs::copy_options::skip_existing);
    result.words[0] = copy;
    const Words prefix{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    result.words.insert(result.words.begin(), prefix.begin(), prefix.end());
    return result;
  }
};

TEST_F(CliBadInput, NamesACommandThatDoesNotExist) {
  expect_usage_error({}, "--help");
  expect_usage_error({"comprae"},
                     "unknown command 'comprae'; known: compare, train, launch, optimizers");
}

TEST_F(CliBadInput, NamesFlagsThatAreUnknownOrLackAValue) {
  expect_usage_error(small_run("out", {"--stpes", "3"}), "--stpes");
  expect_usage_error(small_run("out", {"stray"}), "stray");
  expect_usage_error(small_run("out", {"--seeds"}), "--seeds");
  expect_usage_error(small_run("out", {"--lr"}), "--lr");
  expect_usage_error(small_run("out", {"--data", ""}), "--data needs a value");
  expect_usage_error({"optimizers", "--data", "text"}, "--data");
}

TEST_F(CliBadInput, RefusesDataThatIsMissingEmptyUnreadableOrTooShort) {
  write("empty", "");
  write("short", std::string(100, 'x'));
  fs::create_directory(path("folder"));
  expect_usage_error(small_run("out", {"--data", "absent"}), "no file 'absent'");
  expect_usage_error(small_run("out", {"--data", "empty"}), "is empty");
  expect_usage_error(small_run("out", {"--data", "folder"}), "is a directory");
  expect_usage_error(small_run("out", {"--data", "/proc/self/mem"}), "cannot read");
  expect_usage_error(small_run("out", {"--data", "short"}), "needs at least 660");
  EXPECT_FALSE(fs::exists(path("out"))) << "refused before the directory is made";
}

TEST_F(CliBadInput, RefusesFilesWithoutReadPermission) {
  write("secret", std::string(9000, 'x'));
  write("secret.toml", "[run]\n");
  fs::permissions(path("secret"), fs::perms::none);
  fs::permissions(path("secret.toml"), fs::perms::none);
  expect_refused(as_nobody(small_run("/tmp", {"--data", "secret"})), 2, "Permission denied");
  expect_refused(as_nobody(small_run("/tmp", {"--config", "secret.toml"})), 2, "Permission denied");
}

TEST_F(CliBadInput, RefusesMethodsThatAreUnknownDoubleOrEmpty) {
  expect_usage_error(small_run("out", {"--methods", "adamw,foo"}),
                     "unknown optimizer 'foo'; known: adamw, demo, diloco");
  expect_usage_error(small_run("out", {"--methods", "demo,adamw,demo"}), "'demo' is given twice");
  expect_usage_error(small_run("out", {"--methods", "adamw,,demo"}), "an entry is empty");
  expect_usage_error(small_run("out", {"--methods", "adamw,"}), "an entry is empty");
  expect_usage_error(small_run("out", {"--methods", ""}), "--methods needs a value");
  expect_usage_error(small_run("out", {"--methods", "distro:delay"}), "'delay' is not KEY=VALUE");
  expect_usage_error(small_run("out", {"--methods", "distro:delay=9"}), "from 0 to 8");
  expect_usage_error({"train", "--method", "adamw,demo"}, "train takes one method");
}

TEST_F(CliBadInput, RefusesCountsOutOfRange) {
  for (const char* flag : {"--steps", "--sites", "--ranks", "--batch", "--threads", "--seeds",
                           "--eval-every", "--eval-windows"}) {
    for (const char* value : {"0", "-1", "1.5", "many", "99999999999", "0x10", " 1"}) {
      expect_usage_error(small_run("out", {flag, value}), "must be an integer from 1 to");
    }
  }
  expect_usage_error(small_run("out", {"--batch", "5"}), "batch 5 must divide by sites x ranks, 2");
  expect_usage_error(small_run("out", {"--steps", "2000000000", "--eval-every", "1"}),
                     "make it 20001 or more");
}

TEST_F(CliBadInput, RefusesKBelow1OrAboveTheTile) {
  for (const char* k : {"0", "4097"}) {
    expect_usage_error(small_run("out", {"--set", std::string("optimizer.distro.k=") + k}),
                       "k must be an integer from 1 to 4096");
  }
}

TEST_F(CliBadInput, RefusesLearningRatesThatAreNone) {
  for (const char* lr : {"-1", "nan", "0", "fast", "inf", "", "1e-60", "0.1x"}) {
    expect_usage_error(small_run("out", {"--lr", std::string("adamw=") + lr}),
                       "adamw: the learning rate must be a number above 0");
  }
  expect_usage_error(small_run("out", {"--lr", "0.1"}), "--lr takes NAME=VALUE");
  expect_usage_error(small_run("out", {"--lr", "=0.1"}), "--lr takes NAME=VALUE");
}

TEST_F(CliBadInput, RefusesSettingsOfAMethodThatDoesNotTakePart) {
  expect_usage_error(small_run("out", {"--lr", "sgd=0.1"}), "'sgd' does not take part");
  expect_usage_error(small_run("out", {"--set", "optimizer.sgd.momentum=0.5"}),
                     "'sgd' does not take part");
  expect_usage_error(small_run("out", {"--methods", "adamw", "--lr", "distro=0.1"}),
                     "the methods are adamw");
}

TEST_F(CliBadInput, RefusesModelsAndLinksThatMakeNoSense) {
  expect_usage_error(small_run("out", {"--model", "huge"}), "known: nano, tiny, small, base");
  expect_usage_error(small_run("out", {"--set", "model.heads=3"}), "multiple of heads");
  expect_usage_error(small_run("out", {"--set", "model.frozen=h.7."}), "no parameter begins with");
  expect_usage_error(small_run("out", {"--link", "fast"}), "RATE,ROUND_TRIP");
  expect_usage_error(small_run("out", {"--link", "0mbit,50ms"}), "rate must be above 0");
  expect_usage_error(small_run("out", {"--link", "1mbit,50ms,60%"}), "loss");
}

TEST_F(CliBadInput, NamesTheNearestSetting) {
  expect_usage_error(small_run("out", {"--set", "run.stpes=5"}), "did you mean 'steps'?");
  expect_usage_error(small_run("out", {"--set", "modle.layers=2"}), "a setting of 'model'?");
  expect_usage_error(small_run("out", {"--set", "optimizer.distro.decya=0.9"}), "'decay'?");
  expect_usage_error(small_run("out", {"--set", "schedule.shape=sine"}), "known: constant");
  expect_usage_error(small_run("out", {"--set", "steps=5"}), "form run.steps");
  expect_usage_error(small_run("out", {"--set", "run.steps"}), "--set takes NAME=VALUE");
  expect_usage_error(small_run("out", {"--set", "optimizer.demo=5"}), "form optimizer.distro.k");
}

TEST_F(CliBadInput, SaysWhatIsWrongInAConfigFile) {
  struct Case {
    const char* content;
    const char* part;
  };
  for (const Case& one :
       {Case{"[run]\nsteps = \"many\"\n", "steps must be an integer"},
        Case{"[run]\nsteps = 1.5\n", "got '1.5'"}, Case{"[run]\nsteps = [1, 2]\n", "got '1,2'"},
        Case{"[run]\nsteps = 1979-05-27\n", "run.steps must be a number"},
        Case{"[[run]]\nsteps = 1\n", "run must be a number"},
        Case{"[run]\nstpes = 5\n", "did you mean 'steps'?"},
        Case{"[rnu]\nsteps = 5\n", "a setting of 'run'?"},
        Case{"steps = 5\n", "unknown setting 'steps'"},
        Case{"[optimizer.foo]\nk = 5\n", "unknown optimizer 'foo'"},
        Case{"[optimizer.sgd]\nk = 5\n", "sgd has no setting 'k'"},
        Case{"[optimizer.distro]\nk = 0\n", "k must be an integer"},
        Case{"[run]\nmethods = []\n", "an entry is empty"},
        Case{"[run]\nsteps = = 3\n", "c.toml, line 2, column 9"},
        Case{"[run\n", "c.toml, line 1"}}) {
    SCOPED_TRACE(one.content);
    write("c.toml", one.content);
    // The file comes alone: flags would win over what is wrong in it.
    expect_usage_error({"compare", "--data", "text", "--out", "out", "--config", "c.toml"},
                       one.part);
  }
  fs::create_directory(path("folder"));
  expect_usage_error(small_run("out", {"--config", "absent.toml"}), "No such file");
  expect_usage_error(small_run("out", {"--config", "folder"}), "is a directory");
}

TEST_F(CliBadInput, RefusesAnOutDirectoryThatCannotBeUsed) {
  write("file", "mine");
  expect_usage_error(small_run("file"), "is a file");
  expect_usage_error(small_run("file/below"), "cannot be created");
  expect_usage_error(small_run("/proc/out"), "cannot be created");
  EXPECT_EQ(read("file"), "mine");
  fs::create_directory(path("locked"));
  fs::permissions(path("locked"), fs::perms(0555));
  expect_refused(as_nobody(small_run("locked")), 2, "cannot be written into: Permission denied");
  expect_refused(as_nobody(small_run("locked/out")), 2, "cannot be created: Permission denied");
}

// The run itself is announced, so its error is the last line instead of the only one.
void expect_nothing_written(const Outcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  const std::size_t last = outcome.err.rfind("thinwire: ");
  ASSERT_NE(last, std::string::npos) << outcome.err;
  EXPECT_TRUE(last == 0 || outcome.err[last - 1] == '\n') << outcome.err;
  EXPECT_EQ(outcome.err.find('\n', last) + 1, outcome.err.size()) << outcome.err;
  EXPECT_NE(outcome.err.find(part, last), std::string::npos) << outcome.err;
}

TEST_F(CliBadInput, LeavesNothingBehindWhenFilesMayNotGrow) {
  Launch limited = launch(small_run("out", {"--methods", "sgd"}));
  limited.words.insert(limited.words.begin(), {"prlimit", "--fsize=2000"});
  expect_nothing_written(run_program(limited), "report.html: File too large; free some space");
  EXPECT_EQ(names_in("out"), std::set<std::string>());
}

TEST_F(CliBadInput, LeavesNothingBehindOnAFullDisk) {
  fs::create_directory(path("disk"));
  if (::mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=8k") != 0) {
    GTEST_SKIP() << "only root may mount a small disk";
  }
  const Outcome outcome = run(small_run("disk", {"--methods", "sgd"}));
  const std::set<std::string> left = names_in("disk");
  ::umount(path("disk").c_str());
  expect_nothing_written(outcome, "No space left on device; free some space");
  EXPECT_EQ(left, std::set<std::string>());
}

TEST_F(CliBadInput, RenamesNothingWhenOneNameIsTaken) {
  fs::create_directories(path("out/summary.json"));
  expect_nothing_written(run(small_run("out", {"--methods", "sgd"})), "summary.json: Is a dir");
  EXPECT_EQ(names_in("out"), (std::set<std::string>{"summary.json"}));
}

TEST_F(CliBadInput, FailsWhenStandardOutputIsFull) {
  for (const Words& words :
       {Words{"--help"}, Words{"optimizers"}, Words{"compare", "--print-config"}}) {
    Launch full = launch(words);
    full.output = "/dev/full";
    const Outcome outcome = run_program(full);
    EXPECT_EQ(outcome.code, 1) << words[0];
    EXPECT_EQ(outcome.err, "thinwire: cannot write the result to standard output\n");
  }
}

}  // namespace
}  // namespace thinwire::test
