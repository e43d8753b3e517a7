#include "apps/report.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/html.h"
#include "apps/plot.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

MethodResult made_up_method(const std::string& name, double level, double bytes, double step_s) {
  MethodResult method;
  method.method = name;
  method.settings = "decay=0.999 k=8 lr=0.008 outer_lr=0.7";
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SeedResult one{.seed = seed, .curve = {}, .hash = "00c0ffee0000000" + std::to_string(seed)};
    for (std::uint64_t step = 0; step <= 1000; step += 50) {
      double done = static_cast<double>(step);
      double wave = 0.02 * std::sin(done * static_cast<double>(seed) / 40);
      one.curve.push_back({.step = step,
                           .loss = level + (5.55 - level) / (1 + done / 60) + wave,
                           .bytes_up = bytes * done,
                           .modelled_s = step_s * done});
    }
    method.seeds.push_back(std::move(one));
  }
  method.loss = level + 0.18;
  method.loss_sd = 0.0042;
  method.gap = level - 2.1;
  method.bytes_up = method.bytes_down = bytes;
  method.ratio_up = method.ratio_down = 702336 / bytes;
  method.compute_s = 0.012;
  method.step_s = step_s;
  method.time_to_loss_s = step_s * 800;
  method.tokens_per_s = 48123.4;
  method.peak_mb = 312.6;
  return method;
}

CompareResult made_up() {
  CompareResult result;
  result.methods = {made_up_method("adamw", 2.10, 702336, 0.2184),
                    made_up_method("demo", 2.13, 4096, 0.0625),
                    made_up_method("distro", 2.16, 327, 0.0121)};
  result.methods[1].skipped = 3;
  result.methods[2].time_to_loss_s.reset();
  result.methods[2].bytes_down = 981;
  result.methods[2].ratio_down = 702336 / 981.0;
  result.config =
      "[compare]\nmethods = [\"adamw\", \"demo\", \"distro\"]\nsteps = 1000 # <so far>\n";
  result.command = "thinwire compare --methods adamw,demo,distro --steps 1000 --seeds 1,2,3";
  result.model = "tiny: 2 layers, 64 wide, 4 heads, 64 bytes of context, 117,056 parameters";
  result.data = "kjv (4,137,850 bytes)";
  result.link = "100 Mbit/s, 50 ms round trip, no loss";
  result.sites = 4;
  result.steps = 1000;
  result.ring_bytes = 702336;
  result.target_loss = 2.35;
  result.machine = "made-up processor, 2 cores, g++ 12.2, 2026-11-30";
  return result;
}

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string pattern = (fs::temp_directory_path() / "thinwire_report_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~ReportTest() override { fs::remove_all(dir_); }

  std::string content(const std::string& name) const {
    std::ifstream in(dir_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::set<std::string> names_in(const fs::path& dir) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  fs::path dir_;
};

class PathWithoutGnuplot {
 public:
  PathWithoutGnuplot() : before_(::getenv("PATH")) { ::setenv("PATH", "/nonexistent", 1); }
  ~PathWithoutGnuplot() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

std::size_t longest_line(const std::string& text) {
  std::istringstream in(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Figures, ReadAsPeopleWriteThem) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(327), "327 B");
  EXPECT_EQ(bytes_text(2.5), "2.50 B");
  EXPECT_EQ(bytes_text(999.7), "1.00 kB");
  EXPECT_EQ(bytes_text(702336), "702 kB");
  EXPECT_EQ(bytes_text(1.234e9), "1.23 GB");
  EXPECT_EQ(bytes_text(kNan), "-");
  EXPECT_EQ(seconds_text(0.0451), "45.1 ms");
  EXPECT_EQ(seconds_text(0.99999), "1.00 s");
  EXPECT_EQ(seconds_text(738), "12.3 min");
  EXPECT_EQ(seconds_text(44280), "12.3 h");
  EXPECT_EQ(ratio_text(2150.3), "1/2150");
  EXPECT_EQ(ratio_text(3.14), "1/3.1");
  EXPECT_EQ(ratio_text(1.0), "1");
  EXPECT_EQ(ratio_text(0.5), "2.0x");
  EXPECT_EQ(ratio_text(kNan), "-");
  EXPECT_EQ(count_text(1234567.4), "1,234,567");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(-1234), "-1,234");
}

TEST(Table, SaysEverythingWithinEightyColumns) {
  std::string text = table(made_up());
  EXPECT_LE(longest_line(text), 80u) << text;
  for (const char* part :
       {"2.2800 +- 0.0042", "+0.0600", "327 B", "981 B", "1/2148", "1/716", "12.1 ms",
        "not reached", "48,123", "313", "2.3500", "50 ms", "3 seeds", "4 sites", "skipped"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Table, StaysWithinEightyColumnsWithUnreasonableValues) {
  CompareResult result = made_up();
  result.methods[0].method = std::string(120, 'm');
  result.methods[1].loss = 1e12;
  result.methods[1].loss_sd = 1e12;
  result.methods[1].gap = -1e12;
  result.methods[2].bytes_up = 1e30;
  result.methods[2].ratio_up = 1e12;
  result.methods[2].tokens_per_s = 1e15;
  result.methods[2].step_s = 1e9;
  result.model = std::string(300, 'w');
  result.link = std::string(200, 'l');
  EXPECT_LE(longest_line(table(result)), 80u) << table(result);
}

TEST(Table, SpeaksOfSkipsOnlyWhereThereAreAny) {
  CompareResult result = made_up();
  result.methods[1].skipped = 0;
  std::string text = table(result);
  EXPECT_EQ(text.find("kipped"), std::string::npos);
}

TEST(Table, ShowsADivergedMethodAndAMissingBaseline) {
  CompareResult result = made_up();
  result.methods.erase(result.methods.begin());
  result.methods[0].loss = result.methods[0].gap = result.methods[1].gap = kNan;
  std::string text = table(result);
  EXPECT_NE(text.find("diverged"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(Summary, HasTheDocumentedKeys) {
  CompareResult result = made_up();
  result.methods[2].gap = kNan;
  std::string text = summary_json(result);
  nlohmann::json parsed = nlohmann::json::parse(text);
  ASSERT_TRUE(parsed.is_array());
  ASSERT_EQ(parsed.size(), 3u);
  std::ifstream in(std::string(THINWIRE_SOURCE_DIR) + "/docs/compare.md");
  std::string manual{std::istreambuf_iterator<char>(in), {}};
  for (const char* key :
       {"method", "settings", "lr", "loss", "loss_sd", "gap", "bytes_up", "bytes_down", "ratio_up",
        "ratio_down", "compute_s", "step_s", "time_to_loss_s", "tokens_per_s", "peak_mb", "skipped",
        "hash", "seeds"}) {
    for (const auto& method : parsed) EXPECT_TRUE(method.contains(key)) << key;
    EXPECT_NE(manual.find("`" + std::string(key) + "`"), std::string::npos) << key;
  }
  EXPECT_EQ(parsed[0].size(), 18u);
  EXPECT_EQ(parsed[0]["method"], "adamw");
  EXPECT_EQ(parsed[0]["lr"], 0.008);
  EXPECT_EQ(parsed[1]["skipped"], 3);
  EXPECT_TRUE(parsed[2]["gap"].is_null());
  EXPECT_TRUE(parsed[2]["time_to_loss_s"].is_null());
  EXPECT_EQ(parsed[2]["hash"], "00c0ffee00000001");
  EXPECT_EQ(parsed[2]["seeds"][2]["seed"], 3);
  EXPECT_EQ(parsed[2]["seeds"][2]["hash"], "00c0ffee00000003");
}

TEST(Summary, SurvivesTextThatIsNoUnicode) {
  CompareResult result = made_up();
  result.methods[0].settings = "path=\xff\xfe";
  nlohmann::json parsed = nlohmann::json::parse(summary_json(result));
  EXPECT_TRUE(parsed[0]["lr"].is_null());
}

TEST(Curves, HaveOneLineAnEvaluation) {
  CompareResult result = made_up();
  result.methods[0].method = "adamw,\"wide\"";
  std::string text = curves_csv(result);
  EXPECT_EQ(text.substr(0, text.find('\n')), "method,seed,step,loss,bytes_up,modelled_s");
  EXPECT_EQ(count(text, "\n"), 1u + 3 * 3 * 21);
  EXPECT_NE(text.find("\"adamw,\"\"wide\"\"\",1,0,5.55,0,0\n"), std::string::npos);
  EXPECT_NE(text.find("distro,2,1000,"), std::string::npos);
}

TEST_F(ReportTest, IsOnePageWithThreePlotsAndNoOutsideReferences) {
  write_report(made_up(), dir_);
  EXPECT_EQ(names_in(dir_),
            (std::set<std::string>{"config.toml", "curves.csv", "report.html", "summary.json"}));
  std::string page = content("report.html");
  EXPECT_EQ(count(page, "<svg"), 3u);
  EXPECT_EQ(count(page, "</svg>"), 3u);
  EXPECT_EQ(count(page, "aria-label="), 3u);
  EXPECT_EQ(count(page, "<figcaption>"), 3u);
  EXPECT_EQ(count(page, "http"), count(page, "xmlns=\"http") + count(page, "xmlns:xlink=\"http"));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<!DOCTYPE svg"), std::string::npos);
  EXPECT_NE(page.find("steps = 1000 # &lt;so far&gt;"), std::string::npos);
  EXPECT_NE(page.find("--seeds 1,2,3"), std::string::npos);
  EXPECT_NE(page.find("2.2800 &plusmn; 0.0042"), std::string::npos);
  EXPECT_EQ(page.find("gnuplot-nox"), std::string::npos);
  EXPECT_EQ(content("config.toml"), made_up().config);
  EXPECT_EQ(content("summary.json"), summary_json(made_up()));
  EXPECT_EQ(content("curves.csv"), curves_csv(made_up()));
}

TEST_F(ReportTest, GivesEveryIdOnce) {
  write_report(made_up(), dir_);
  std::string page = content("report.html");
  std::set<std::string> ids;
  for (std::size_t at = page.find(" id="); at != std::string::npos;
       at = page.find(" id=", at + 1)) {
    std::string id = page.substr(at + 5, page.find(page[at + 4], at + 5) - at - 5);
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
  EXPECT_GT(ids.size(), 3u);
}

TEST_F(ReportTest, KeepsItsTablesWithoutGnuplot) {
  {
    PathWithoutGnuplot bare;
    write_report(made_up(), dir_);
  }
  std::string page = content("report.html");
  EXPECT_EQ(count(page, "<svg"), 0u);
  EXPECT_EQ(count(page, "install gnuplot-nox to get plots here"), 3u);
  EXPECT_NE(page.find("1/2148"), std::string::npos);
}

TEST_F(ReportTest, KeepsItsTablesWhenGnuplotFails) {
  std::ofstream(dir_ / "gnuplot") << "#!/bin/sh\necho '<svg></svg>'\nexit 1\n";
  fs::permissions(dir_ / "gnuplot", fs::perms::owner_all);
  std::string before = ::getenv("PATH");
  ::setenv("PATH", (dir_.string() + ":" + before).c_str(), 1);
  std::vector<Figure> drawn = figures(made_up());
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_EQ(drawn.size(), 3u);
  for (const Figure& figure : drawn) EXPECT_EQ(figure.svg, "");
}

TEST_F(ReportTest, LetsNoNameSpeakToGnuplotOrThePage) {
  CompareResult result = made_up();
  result.methods[0].method = "a'; system('touch " + (dir_ / "owned").string() + "') #`id`<b>\n\"";
  std::string page = report_html(result, figures(result));
  EXPECT_FALSE(fs::exists(dir_ / "owned"));
  EXPECT_EQ(count(page, "<svg"), 3u);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
}

TEST(Figures, AreDrawnOfOrdinaryAndOddRuns) {
  CompareResult silent = made_up();
  silent.methods.resize(1);
  silent.methods[0].seeds.resize(1);
  for (CurvePoint& at : silent.methods[0].seeds[0].curve) at.bytes_up = 0;
  std::vector<Figure> drawn = figures(silent);
  EXPECT_NE(drawn[0].svg, "");
  EXPECT_EQ(drawn[1].svg, "");  // nothing was sent
  CompareResult odd = made_up();
  odd.methods[0].seeds[0].curve.resize(1);           // stopped at once
  odd.methods[1].seeds[0].curve.back().loss = kNan;  // diverged
  odd.methods[2].seeds[1].curve.back().loss = 1e30;
  for (const Figure& figure : figures(odd)) EXPECT_NE(figure.svg, "") << figure.caption;
  EXPECT_EQ(figures(CompareResult{}).size(), 3u);
}

TEST_F(ReportTest, ReplacesAnEarlierReport) {
  std::ofstream(dir_ / "summary.json") << "old";
  write_report(made_up(), dir_);
  EXPECT_EQ(content("summary.json"), summary_json(made_up()));
}

TEST_F(ReportTest, LeavesNothingHalfWrittenWhenTheDiskIsFull) {
  fs::path small = dir_ / "small";
  fs::create_directory(small);
  bool mounted = ::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=16k") == 0;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  if (!mounted) {  // without the right to mount, a file may at least not grow
    rlimit tight = before;
    tight.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  std::string complaint;
  try {
    write_report(made_up(), small);
  } catch (const Error& error) {
    complaint = error.what();
  }
  std::set<std::string> left = names_in(small);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  if (mounted) ::umount(small.c_str());
  EXPECT_EQ(complaint, "cannot write " + (small / "report.html").string() + ": " +
                           (mounted ? "No space left on device" : "File too large") +
                           "; free some space or choose another --out");
  EXPECT_EQ(left, std::set<std::string>{});
}

TEST_F(ReportTest, NamesADirectoryThatIsGone) {
  try {
    write_report(made_up(), dir_ / "gone");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "cannot write " + (dir_ / "gone/report.html").string() +
                                             ": No such file or directory; choose another --out");
  }
}

TEST_F(ReportTest, MakesTheOutDirectoryBeforehand) {
  check_out_dir(dir_ / "a" / "b");
  EXPECT_TRUE(fs::is_directory(dir_ / "a" / "b"));
  EXPECT_TRUE(fs::is_empty(dir_ / "a" / "b"));
  check_out_dir(dir_ / "a" / "b");
}

TEST_F(ReportTest, RefusesAnOutDirectoryThatCannotWork) {
  auto complaint = [](const fs::path& dir) -> std::string {
    try {
      check_out_dir(dir);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  std::ofstream(dir_ / "file") << "x";
  EXPECT_EQ(complaint(dir_ / "file"),
            "--out " + (dir_ / "file").string() + " is a file; choose another directory");
  EXPECT_NE(complaint(dir_ / "file" / "below").find("cannot be created: Not a directory"),
            std::string::npos);
  EXPECT_NE(complaint("/proc").find("cannot be written into: "), std::string::npos);
  EXPECT_NE(complaint("").find("choose another directory"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::app
