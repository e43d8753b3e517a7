// A plan's result as table, page and JSON, from made-up figures.
#include "apps/plan_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/plan_table.h"
#include "apps/plan_verdicts.h"
#include "tests/made_up_result.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::json;

PlanRow made_up_row(const std::string& label, double level, double bytes) {
  PlanRow row;
  row.method = made_up_method(label, level, bytes, 0.1);
  row.point = "beta1=0.9 lr=0.004";
  row.lr = "0.004";
  row.status = CellStatus::trained;
  row.losses = {level, level + 0.01, level - 0.01};
  row.to_adamw = {level - 2.1, 0.0123, 3};
  row.to_muon.mean = kNan;
  return row;
}

PlanSizeResult made_up_size(const std::string& name, std::uint64_t parameters) {
  PlanSizeResult size;
  size.name = name;
  size.model = "tiny: 2 layers, 64 wide";
  size.data = "King James Bible";
  size.link = "100 Mbit/s";
  size.sites = 4;
  size.steps = 1000;
  size.parameters = parameters;
  size.ring_bytes = 702336;
  size.rows = {made_up_row("adamw", 2.1, 702336), made_up_row("<distro> & \"friends\"", 2.2, 327),
               made_up_row("alone", 2.4, 0)};
  size.rows[0].remark = "lowest rate tried";
  size.rows[2].method.skipped = 3;
  PlanRow wild;
  wild.method.method = "wild";
  wild.method.loss = wild.to_adamw.mean = wild.to_muon.mean = kNan;
  wild.status = CellStatus::diverged;
  wild.reason = "the loss is not finite";
  wild.diverged = 1;
  wild.losses = {2.0, kNan, 2.0};
  size.rows.push_back(wild);
  size.tuning = {
      {"adamw", "lr=0.004", "trained", "", 2.1, false, true, "lowest rate tried"},
      {"adamw", "lr=0.008", "diverged", "the loss is not finite", INFINITY, false, false, ""},
      {"adamw", "lr=0.002", "trained", "", 2.3, true, false, ""}};
  return size;
}

PlanResult made_up_plan() {
  PlanResult result;
  result.name = "made up <plan>";
  result.command = "thinwire compare --plan p.toml";
  result.text = "name = \"made up <plan>\"\n";
  result.machine = "made-up processor";
  result.tune_seeds = {1};
  result.report_seeds = {11, 12, 13};
  result.sizes = {made_up_size("small", 117056), made_up_size("large", 1170560)};
  result.verdicts = {{"distro against adamw", "gap +0.1, at most +0.2 expected", true},
                     {"alone against adamw", "gap +0.3, at most +0.2 expected", false}};
  result.notes = {"The baseline 'muon' is left out."};
  return result;
}

TEST(PlanReport, TheTableHasEverythingWithin80Columns) {
  PlanResult result = made_up_plan();
  result.has_muon = true;
  for (PlanSizeResult& size : result.sizes) size.rows[1].to_muon = {-0.03125, 0.00875, 3};
  const std::string table = plan_table(result);
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  for (const char* part : {"+0.1000 +- 0.0123", "-0.0312 +- 0.0088", "baseline", "diverged 1/3",
                           "0.004*", "best, lowest rate tried", "added", "1/2148",
                           "VIOLATED: alone", "holds: distro", "seeds 11, 12, 13", "seed 1 alone",
                           "'muon' is left out", "vs muon", "finite: alone (3)."}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(PlanReport, ThePageIsSafeAndHasAllPictures) {
  const std::string page = plan_html(made_up_plan());
  EXPECT_EQ(page.find("<distro>"), std::string::npos);
  EXPECT_EQ(page.find("<plan>"), std::string::npos);
  EXPECT_NE(page.find("&lt;distro&gt; &amp; &quot;friends&quot;"), std::string::npos);
  EXPECT_EQ(page.find("http"), page.find("http://www.w3.org"));  // gnuplot's own, nothing before
  std::size_t figures = 0;
  for (std::size_t at = page.find("<figure>"); at != page.npos; at = page.find("<figure>", at + 1))
    ++figures;
  EXPECT_EQ(figures, 2u * 4u + 1u);  // of each size four, and one of all sizes
  EXPECT_NE(page.find("<strong>VIOLATED: alone"), std::string::npos);
  EXPECT_NE(page.find("the best rate of these is the lowest or highest"), std::string::npos);
}

TEST(PlanReport, TheJsonHasNoNumbersThatAreNone) {
  const Json json = Json::parse(plan_json(made_up_plan()));
  EXPECT_EQ(json["plan"], "made up <plan>");
  const Json methods = json["sizes"][1]["methods"];
  ASSERT_EQ(methods.size(), 4u);
  EXPECT_EQ(methods[3]["status"], "diverged");
  EXPECT_TRUE(methods[3]["vs_adamw"]["mean"].is_null());
  EXPECT_DOUBLE_EQ(methods[1]["vs_adamw"]["half"].get<double>(), 0.0123);
  EXPECT_TRUE(json["sizes"][0]["tuning"][1]["loss"].is_null());
  EXPECT_EQ(json["expectations"][1]["holds"], false);
}

TEST(PlanReport, AnIntervalSaysHowMuchItKnows) {
  EXPECT_EQ(interval_text({kNan, kNan, 0}), "-");
  EXPECT_EQ(interval_text({0.5, kNan, 1}), "+0.5000 (1 seed)");
  EXPECT_EQ(interval_text({-0.03125, 0.00212, 3}), "-0.0312 +- 0.0021");
}

TEST(PlanReport, TheFrontHoldsWhatNothingBeats) {
  const std::vector<ParetoPoint> front = pareto_front(
      {{100, 0.0, 0}, {1, 0.3, 1}, {10, 0.1, 2}, {10, 0.2, 3}, {50, 0.1, 4}, {200, -0.1, 5}});
  std::vector<std::size_t> indices;
  indices.reserve(front.size());
  for (const ParetoPoint& point : front) indices.push_back(point.index);
  EXPECT_EQ(indices, (std::vector<std::size_t>{1, 2, 0, 5}));
}

TEST(PlanReport, ExpectationsAreJudgedOnPairsAtEachSize) {
  const PlanResult result = made_up_plan();
  Plan plan;
  Expectation gap;
  gap.name = "gap";
  gap.a = "alone";
  gap.b = "adamw";
  gap.max_gap = 0.31;
  gap.min_gap = 0.29;
  Expectation tight = gap;
  tight.max_gap = 0.29;
  tight.size = "small";
  Expectation wild;
  wild.a = "wild";
  wild.max_loss = 100;
  Expectation missing = gap;
  missing.b = "muon";
  Expectation bytes;
  bytes.a = "adamw";
  bytes.size = "large";
  bytes.max_bytes_up = 702336;
  Expectation fewer = bytes;
  fewer.max_bytes_up = 702335;
  plan.expectations = {gap, tight, wild, missing, bytes, fewer};
  const std::vector<Verdict> verdicts = judge(plan, result);
  ASSERT_EQ(verdicts.size(), 2u + 1u + 2u + 2u + 2u);
  EXPECT_TRUE(verdicts[0].holds) << verdicts[0].detail;
  EXPECT_EQ(verdicts[1].name, "gap at size large");
  EXPECT_FALSE(verdicts[2].holds);
  EXPECT_FALSE(verdicts[3].holds);
  EXPECT_NE(verdicts[3].detail.find("wild diverged"), std::string::npos);
  EXPECT_FALSE(verdicts[5].holds);
  EXPECT_EQ(verdicts[5].detail, "muon was left out");
  EXPECT_TRUE(verdicts[7].holds);
  EXPECT_FALSE(verdicts[8].holds);
}

}  // namespace
}  // namespace thinwire::app
