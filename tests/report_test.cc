#include "apps/report.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/html.h"
#include "apps/plot.h"
#include "tests/made_up_result.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;
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
       {"method",         "settings",     "lr",       "loss",       "loss_sd",   "gap",
        "bytes_up",       "bytes_down",   "ratio_up", "ratio_down", "compute_s", "step_s",
        "time_to_loss_s", "tokens_per_s", "peak_mb",  "skipped",    "times",     "exposed_share",
        "hash",           "seeds"}) {
    for (const auto& method : parsed) EXPECT_TRUE(method.contains(key)) << key;
    EXPECT_NE(manual.find("`" + std::string(key) + "`"), std::string::npos) << key;
  }
  EXPECT_EQ(parsed[0].size(), 20u);
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
  EXPECT_EQ(drawn[1].svg, "");
  EXPECT_EQ(drawn[1].instead, "nothing to draw");  // as nothing was sent
  CompareResult odd = made_up();
  odd.methods[0].seeds[0].curve.resize(2);           // stopped at once
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
