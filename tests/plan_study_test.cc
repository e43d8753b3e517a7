// Which cells are wanted, and which is the best, for made-up losses.
#include "apps/plan_study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace thinwire::app {
namespace {

CellResult cell(double loss, CellStatus status = CellStatus::trained) {
  CellResult result;
  result.status = status;
  result.method.loss = loss;
  return result;
}

class PlanStudyTest : public testing::Test {
 protected:
  PlanStudyTest() {
    plan.tune_seeds = {1};
    plan.report_seeds = {11, 12};
    method.label = method.method = "adamw";
    method.lrs = {0.25f, 0.5f, 1.0f};
  }

  // Answers everything that is wanted until nothing is.
  void play(Study& study, const std::function<CellResult(const PlanPoint&)>& result) {
    for (auto wanted = study.take_wanted(); !wanted.empty(); wanted = study.take_wanted()) {
      for (const Study::Wanted& one : wanted) {
        asked.insert({describe(one.trial->point), one.seed});
        one.trial->cells[one.index] = result(one.trial->point);
      }
    }
    EXPECT_TRUE(study.finished());
  }

  std::set<std::pair<std::string, std::uint64_t>> asked;
  Plan plan;
  PlanSize size;
  PlanMethod method;
};

// The lower, the nearer to `at` in octaves.
std::function<CellResult(const PlanPoint&)> valley(double at) {
  return [at](const PlanPoint& point) { return cell(std::abs(std::log2(point.lr / at))); };
}

TEST_F(PlanStudyTest, TunesOnItsSeedsAndShowsTheBestOnTheOthers) {
  method.grid = {{"beta1", {"0.9", "0.8"}}};
  Study study(plan, size, method);
  EXPECT_EQ(study.ahead(), 8u);
  play(study, [](const PlanPoint& point) {
    return cell(valley(0.5)(point).loss() + (point.settings.at("beta1") == "0.8" ? 0 : 1));
  });
  EXPECT_EQ(study.ahead(), 0u);
  EXPECT_EQ(describe(study.report()->point), "beta1=0.8 lr=0.5");
  EXPECT_EQ(study.edge(), Edge::none);
  EXPECT_EQ(asked.size(), 6u + 2u);
  EXPECT_EQ(asked.count({"beta1=0.8 lr=0.5", 12}), 1u);
  EXPECT_EQ(asked.count({"beta1=0.9 lr=0.5", 11}), 0u);
  EXPECT_EQ(asked.count({"beta1=0.8 lr=0.5", 1}), 1u);
}

TEST_F(PlanStudyTest, SaysWhereTheBestIsAtAnEdge) {
  for (const auto& [at, edge] : {std::pair{4.0, Edge::high}, {0.01, Edge::low}}) {
    Study study(plan, size, method);
    play(study, valley(at));
    EXPECT_EQ(study.edge(), edge);
    EXPECT_EQ(study.tuning().size(), 3u);
  }
}

TEST_F(PlanStudyTest, GoesOnFromAnEdgeUntilItIsNone) {
  method.extend = true;
  Study study(plan, size, method);
  play(study, valley(4.0));
  EXPECT_EQ(study.edge(), Edge::none);
  EXPECT_EQ(study.report()->point.lr, 4.0f);
  EXPECT_EQ(study.tuning().size(), 6u);  // 2, 4 and 8 are added
  EXPECT_TRUE(study.tuning().back().added);
  EXPECT_FALSE(study.tuning().front().added);
}

TEST_F(PlanStudyTest, GoesOnNoFurtherThanItMay) {
  method.extend = true;
  Study study(plan, size, method);
  play(study, valley(1e-9));
  EXPECT_EQ(study.edge(), Edge::low);
  EXPECT_EQ(study.tuning().size(), 3u + Study::kAddedMax);
  EXPECT_EQ(study.report()->point.lr, 0.25f / 16);
}

TEST_F(PlanStudyTest, ExtendsASingleRateToBothSides) {
  method.extend = true;
  method.lrs = {1.0f};
  Study study(plan, size, method);
  play(study, valley(2.0));
  EXPECT_EQ(study.report()->point.lr, 2.0f);
  EXPECT_EQ(study.edge(), Edge::none);
}

TEST_F(PlanStudyTest, DoesNotTuneWhatLeavesNoChoice) {
  method.lrs = {1.0f};
  Study study(plan, size, method);
  play(study, valley(2.0));
  EXPECT_TRUE(study.tuning().empty());
  EXPECT_EQ(asked.count({"lr=1", 1}), 0u);
  EXPECT_EQ(asked.size(), 2u);
}

TEST_F(PlanStudyTest, ADivergedOrFailedCellIsNeverTheBest) {
  const double nan = std::nan("");
  Study study(plan, size, method);
  play(study, [&](const PlanPoint& point) {
    if (point.lr == 0.25f) return cell(nan, CellStatus::diverged);
    if (point.lr == 0.5f) return cell(0.0, CellStatus::failed);
    return cell(5.0);
  });
  EXPECT_EQ(study.report()->point.lr, 1.0f);
}

TEST_F(PlanStudyTest, EndsWhereNoCellTrained) {
  Study study(plan, size, method);
  play(study, [](const PlanPoint&) { return cell(9.0, CellStatus::diverged); });
  EXPECT_FALSE(study.report().has_value());
  EXPECT_EQ(study.best(), nullptr);
  EXPECT_EQ(study.ahead(), 0u);
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(PlanStudyTest, ASeedOfTheTuningThatDivergedSpoilsItsPoint) {
  plan.tune_seeds = {1, 2};
  Study study(plan, size, method);
  int calls = 0;
  play(study, [&](const PlanPoint& point) {
    const bool second = ++calls % 2 == 0;
    if (point.lr == 0.25f) return second ? cell(9.0, CellStatus::diverged) : cell(0.1);
    return cell(point.lr);
  });
  EXPECT_EQ(study.report()->point.lr, 0.5f);
}

}  // namespace
}  // namespace thinwire::app
