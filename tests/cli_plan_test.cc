// Whole experiments through the real program: what is written, kept, refused and run again.
#include <sys/file.h>

#include <nlohmann/json.hpp>

#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kSmall =
    "name = \"small\"\n[run]\ndata = \"text\"\nsites = 2\nbatch = 4\nsteps = 6\neval_every = 3\n"
    "eval_windows = 8\n[model]\nlayers = 1\nwidth = 64\ncontext = 32\n"
    "[seeds]\ntune = 1\nreport = [11, 12]\n"
    "[[method]]\nmethod = \"adamw\"\nlr = [0.002, 0.004]\n"
    "[[method]]\nmethod = \"muon\"\n[[method]]\nmethod = \"averaging\"\n";
// Two rates of adamw and of one site alone on a seed, four methods on two seeds.
constexpr std::size_t kSmallCells = 4 + 4 * 2;
const std::string kDistro = "[[method]]\nmethod = \"distro:k=16\"\nlr = [0.002, 0.004, 0.008]\n";

class CliPlan : public CliTest {
 protected:
  Launch plan(const std::string& text, const Words& more = {}) const {
    write("p.toml", text);
    Words words{"compare", "--plan", "p.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return launch(words);
  }
  Outcome run_plan(const std::string& text, const Words& more = {}) const {
    return run_program(plan(text, more));
  }
  void expect_plan_refused(const std::string& text, const std::string& part,
                           const Words& more = {}) const {
    expect_refused(plan(text, more), 2, part);
  }

  Json result(const std::string& out = "out") const {
    Json json = Json::parse(read(out + "/result.json"), nullptr, false);
    EXPECT_TRUE(json.is_object());
    return json;
  }

  // Without what a clock measured.
  static Json without_times(Json json) {
    for (Json& size : json["sizes"]) {
      for (Json& method : size["methods"]) method.erase("times");
    }
    return json;
  }

  Json row(const std::string& label, const std::string& out = "out") const {
    const Json all = result(out);
    for (const Json& method : all["sizes"][0]["methods"]) {
      if (method["method"] == label) return method;
    }
    ADD_FAILURE() << "no " << label;
    return {};
  }

  // Results by name of the file, whole.
  std::map<std::string, std::string> cells(const std::string& out = "out") const {
    std::map<std::string, std::string> all;
    const std::string dir = out + "/cells/";
    for (const std::string& name : names_in(dir)) {
      if (name.ends_with(".json") && name[0] != '.') all[name] = read(dir + name);
    }
    return all;
  }

  bool comes_true(const std::function<bool()>& is, int seconds = 30) const {
    for (int i = 0; i < 200 * seconds; ++i) {
      if (is()) return true;
      ::poll(nullptr, 0, 5);
    }
    return false;
  }

  // Processes that run cells of this test.
  std::vector<pid_t> children() const {
    std::vector<pid_t> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/proc", none)) {
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      const std::string words{std::istreambuf_iterator<char>(file), {}};
      const fs::path cwd = fs::read_symlink(entry.path() / "cwd", none);
      if (words.find("plan-cell") != words.npos && cwd == dir_) {
        found.push_back(std::stoi(entry.path().filename()));
      }
    }
    return found;
  }

  // The plan with runs of some seconds, and what is done in the middle of it.
  Launch in_the_middle(int signal, const std::function<void()>& then) const {
    Launch launch = plan(slow(), {"--jobs", "2"});
    launch.signal = signal;
    launch.signal_when = "elapsed";
    launch.then = then;
    return launch;
  }
  static std::string slow() {
    std::string text = kSmall;
    text.replace(text.find("steps = 6"), 9, "steps = 150");
    return text + kDistro;
  }
};

TEST_F(CliPlan, RunsAPlanAndReportsIt) {
  const Outcome outcome = run_plan(kSmall + kDistro);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(names_in("out"), (std::set<std::string>{".plan.lock", "cells", "plan.toml",
                                                    "report.html", "report.txt", "result.json"}));
  EXPECT_EQ(outcome.out, read("out/report.txt"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  const Json json = result();
  EXPECT_EQ(json["sizes"][0]["tuning"].size(), 2u + 2u + 3u);  // adamw, alone, distro
  EXPECT_EQ(json["sizes"][0]["methods"].size(), 5u);
  EXPECT_EQ(cells().size(), kSmallCells + 3u + 2u);
  const Json distro = row("distro:k=16"), adamw = row("adamw");
  double mean = 0.0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(distro["seeds"][i]["seed"], 11 + i);
    mean +=
        (distro["seeds"][i]["loss"].get<double>() - adamw["seeds"][i]["loss"].get<double>()) / 2;
  }
  EXPECT_NEAR(distro["vs_adamw"]["mean"].get<double>(), mean, 1e-12);
  EXPECT_EQ(distro["vs_adamw"]["pairs"], 2);
  EXPECT_LT(distro["bytes_up"].get<double>(), adamw["bytes_up"].get<double>());
  EXPECT_EQ(row("alone")["bytes_up"], 0.0);
}

TEST_F(CliPlan, ACellIsWhatCompareFindsWithItsFile) {
  EXPECT_EQ(run_plan(kSmall).code, 0);
  for (const std::string& name : names_in("out/cells")) {
    if (!name.starts_with("nano-adamw") || !name.ends_with(".toml")) continue;
    if (name.find("-seed11-") == name.npos) continue;
    const Outcome again =
        run({"compare", "--config", "out/cells/" + name, "--out", "again", "--json"});
    ASSERT_EQ(again.code, 0) << again.err;
    const Json cell = Json::parse(read("out/cells/" + name.substr(0, name.size() - 5) + ".json"));
    EXPECT_EQ(Json::parse(again.out)[0]["loss"], cell["loss"]);
    EXPECT_EQ(Json::parse(again.out)[0]["hash"], cell["replica"]);
    return;
  }
  FAIL() << "no cell of adamw with seed 11";
}

TEST_F(CliPlan, PrintsTheResultAsJson) {
  const Outcome outcome = run_plan(kSmall, {"--json", "--out", "deep/out", "--jobs", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, read("deep/out/result.json"));
}

TEST_F(CliPlan, RunsNothingTwice) {
  EXPECT_EQ(run_plan(kSmall).code, 0);
  const auto before = cells();
  const Json first = result();
  const Outcome again = run_plan(kSmall);
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("plan: 0 runs made, 12 were there already"), std::string::npos)
      << again.err;
  EXPECT_EQ(cells(), before);
  EXPECT_EQ(result(), first);
}

TEST_F(CliPlan, RunsAnewWhatHasChanged) {
  EXPECT_EQ(run_plan(kSmall).code, 0);
  const auto before = cells();
  // A further method leaves the others as they are.
  const Outcome more = run_plan(kSmall + "[[method]]\nmethod = \"sgd\"\nlr = 0.1\n");
  EXPECT_NE(more.err.find("plan: 2 runs made, 12 were there"), std::string::npos) << more.err;
  for (const auto& [name, content] : before) EXPECT_EQ(cells()[name], content);
  // Another text is another experiment.
  write("text", read("text") + "and one line more\n");
  const Outcome other = run_plan(kSmall);
  EXPECT_NE(other.err.find("is run anew"), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("plan: 12 runs made, 0 were there"), std::string::npos) << other.err;
  // So is a file that is damaged.
  const std::string damaged = before.begin()->first;
  write("out/cells/" + damaged, "{\"form\": 1, \"ha");
  const Outcome mended = run_plan(kSmall);
  EXPECT_NE(mended.err.find("plan: 1 runs made, 11 were there"), std::string::npos) << mended.err;
}

// As of a method that trained on other data.
TEST_F(CliPlan, RefusesToCompareWhatDidNotBeginAlike) {
  EXPECT_EQ(run_plan(kSmall).code, 0);
  for (const auto& [name, content] : cells()) {
    if (name.find("alone") == name.npos || name.find("-seed12-") == name.npos) continue;
    for (const bool training : {false, true}) {
      Json cell = Json::parse(content);
      Json& loss = training ? cell["first_loss"] : cell["curve"][0][1];
      loss = loss.get<double>() + 1e-7;
      write("out/cells/" + name, cell.dump());
      const Outcome outcome = run_plan(kSmall);
      EXPECT_EQ(outcome.code, 1);
      EXPECT_NE(outcome.err.find("thinwire: size nano seed 12: 'adamw' began with"),
                std::string::npos)
          << outcome.err;
      EXPECT_EQ(outcome.out, "");
    }
    return;
  }
  FAIL() << "no cell of alone with seed 12";
}

TEST_F(CliPlan, ADivergedMethodIsReportedAndThePlanGoesOn) {
  const std::string text =
      kSmall + "[[method]]\nlabel = \"wild\"\nmethod = \"adamw\"\nlr = 1e6\n" +
      "[[method]]\nlabel = \"wild grid\"\nmethod = \"adamw\"\nlr = [1e6, 2e6]\n" + kDistro;
  const Outcome outcome = run_plan(text);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(row("wild")["status"], "diverged");
  EXPECT_EQ(row("wild")["diverged"], 2);
  EXPECT_TRUE(row("wild")["vs_adamw"]["mean"].is_null());
  EXPECT_EQ(row("wild grid")["status"], "diverged");
  EXPECT_EQ(row("distro:k=16")["status"], "trained");
  EXPECT_NE(outcome.out.find("diverged 2/2"), std::string::npos) << outcome.out;
  EXPECT_NE(run_plan(text).err.find("plan: 0 runs made"), std::string::npos);
}

TEST_F(CliPlan, AGuardThatStopsARunMakesItADivergedOne) {
  std::string text = kSmall + "[[method]]\nlabel = \"wild\"\nmethod = \"adamw\"\nlr = 1e30\n";
  text.replace(text.find("steps = 6"), 9, "steps = 6\nguard = \"stop\"");
  const Outcome outcome = run_plan(text);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(row("wild")["status"], "diverged");
  EXPECT_NE(row("wild")["reason"].get<std::string>().find("finite"), std::string::npos)
      << row("wild")["reason"];
  EXPECT_EQ(row("adamw")["status"], "trained");
  EXPECT_EQ(run_plan(text).code, 0);  // from the files
}

TEST_F(CliPlan, AViolatedExpectationIsNamed) {
  const std::string good = "[[expect]]\na = \"distro:k=16\"\nb = \"adamw\"\nmax_gap = 100\n" +
                           std::string("[[expect]]\na = \"adamw\"\nmax_loss = 9\nmin_loss = 0.1\n");
  EXPECT_EQ(run_plan(kSmall + kDistro + good).code, 0);
  const std::string bad = "[[expect]]\na = \"adamw\"\nb = \"alone\"\nmax_gap = -50\n";
  const Outcome outcome = run_plan(kSmall + kDistro + good + bad);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("\nthinwire: expectations are violated: adamw against alone at size "),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("VIOLATED: adamw against alone"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("holds: distro:k=16 against adamw"), std::string::npos);
  const Json verdicts = result()["expectations"];
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(verdicts[2]["holds"], false);
  EXPECT_EQ(verdicts[0]["holds"], true);
}

TEST_F(CliPlan, ExpectsHashes) {
  const std::string twin = "[[method]]\nlabel = \"twin\"\nmethod = \"adamw:lr=0.004\"\n" +
                           std::string("[[method]]\nlabel = \"twin 2\"\nmethod = \"adamw\"\n") +
                           "lr = 0.004\n";
  EXPECT_EQ(
      run_plan(kSmall + twin + "[[expect]]\na = \"twin\"\nb = \"twin 2\"\nsame_hash = true\n").code,
      0);
  const std::string hash = row("twin")["seeds"][0]["hash"];
  const std::string expected = "[[expect]]\na = \"twin 2\"\nhash = \"";
  EXPECT_EQ(run_plan(kSmall + twin + expected + hash + "\"\n").code, 0);
  EXPECT_EQ(run_plan(kSmall + twin + expected + "0123456789abcdef\"\n").code, 1);
  EXPECT_EQ(
      run_plan(kSmall + twin + "[[expect]]\na = \"twin\"\nb = \"alone\"\nsame_hash = true\n").code,
      1);
}

TEST_F(CliPlan, AKilledPlanGoesOnWhereItWas) {
  EXPECT_EQ(run_plan(slow(), {"--out", "whole"}).code, 0);
  std::map<std::string, std::string> before;
  const Outcome killed = run_program(in_the_middle(SIGKILL, [&] {
    EXPECT_TRUE(comes_true([&] { return cells().size() >= 4; }));
    before = cells();
  }));
  EXPECT_EQ(killed.code, -1);
  // Its children have noticed.
  EXPECT_TRUE(comes_true([&] { return children().empty(); }, 5));
  EXPECT_LT(cells().size(), cells("whole").size());
  const Outcome on = run_plan(slow());
  EXPECT_EQ(on.code, 0) << on.err;
  for (const auto& [name, content] : before) EXPECT_EQ(cells()[name], content) << name;
  EXPECT_EQ(without_times(result()), without_times(result("whole")));
}

TEST_F(CliPlan, StopsAtASignalAndSaysHowToGoOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Outcome outcome = run_program(in_the_middle(
        signal, [&] { EXPECT_TRUE(comes_true([&] { return !children().empty(); })); }));
    EXPECT_EQ(outcome.code, 128 + signal);
    EXPECT_LT(outcome.after_s, 5.0);
    EXPECT_NE(outcome.err.find(" are kept, and the same command goes on from there\n"),
              std::string::npos)
        << outcome.err;
    EXPECT_TRUE(children().empty());
    EXPECT_EQ(names_in("out").count("report.html"), 0u);
  }
  EXPECT_EQ(run_plan(slow()).code, 0);
}

TEST_F(CliPlan, ARunThatCrashesIsReportedAndTriedAgain) {
  const Outcome outcome = run_program(in_the_middle(0, [&] {
    EXPECT_TRUE(comes_true([&] { return !children().empty(); }));
    const std::vector<pid_t> all = children();
    if (!all.empty()) ::kill(all.front(), SIGKILL);
  }));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("was ended by signal 9"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("\nthinwire: 1 runs failed"), std::string::npos) << outcome.err;
  EXPECT_EQ(result()["failed"].size(), 1u);
  const Outcome again = run_plan(slow());
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(result()["failed"].size(), 0u);
}

TEST_F(CliPlan, ShowsABarOnATerminalAndPlainLinesInAFile) {
  const Outcome plain = run_plan(kSmall);
  EXPECT_EQ(plain.err.find_first_of("\r\x1b"), std::string::npos) << plain.err;
  EXPECT_NE(plain.err.find("100%"), std::string::npos) << plain.err;
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  Launch shown = plan(kSmall, {"--out", "shown"});
  shown.terminal = true;
  const Outcome bar = run_program(shown);
  EXPECT_EQ(bar.code, 0);
  EXPECT_NE(bar.err.find("\r["), std::string::npos) << bar.err;
  EXPECT_NE(bar.err.find("/12 runs"), std::string::npos) << bar.err;
}

TEST_F(CliPlan, RefusesBadPlansBeforeItMakesAFile) {
  expect_plan_refused("name = \"a\n", "p.toml, line 1, column");
  expect_plan_refused(kSmall + "[[method]]\nmethod = \"adamv\"\n", "p.toml, line 24, column 10");
  expect_plan_refused(kSmall + "[[methud]]\nmethod = \"sgd\"\n", "unknown key 'methud'");
  std::string other = kSmall;
  other.replace(other.find("\"text\""), 6, "\"none\"");
  expect_plan_refused(other, "none");
  expect_plan_refused(kSmall, "--jobs", {"--jobs", "-1"});
  expect_plan_refused(kSmall, "--steps does not go with --plan", {"--steps", "4"});
  expect_plan_refused(kSmall, "--set does not go with --plan", {"--set", "run.steps=4"});
  expect_usage_error({"compare", "--plan", "none.toml"}, "--plan none.toml cannot be read");
  expect_usage_error({"compare", "--jobs", "2"}, "--jobs is for --plan");
}

TEST_F(CliPlan, RefusesAnOutThatIsNotItsOwn) {
  EXPECT_EQ(run_plan(kSmall, {"--out", "kept"}).code, 0);
  std::string other = kSmall;
  other.replace(other.find("small"), 5, "large");
  expect_plan_refused(other, "holds the runs of another plan, 'small'", {"--out", "kept"});
  fs::remove(dir_ / "kept/plan.toml");
  expect_plan_refused(kSmall, "another plan", {"--out", "kept"});
}

TEST_F(CliPlan, RefusesAnOutThatItCannotWriteOrShare) {
  expect_plan_refused(kSmall, "is a file", {"--out", "text"});
  expect_plan_refused(kSmall, "cannot be created", {"--out", "/proc/none"});
  fs::create_directories(dir_ / "busy");
  const int file = ::open((dir_ / "busy/.plan.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  expect_plan_refused(kSmall, "in use by another plan", {"--out", "busy"});
  ::close(file);
}

}  // namespace
}  // namespace thinwire::test
