// What a plan's file may say, and where the place of a mistake is.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "apps/plan.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;

const std::string kHead = "name = \"p\"\n";
const std::string kSeeds = "[seeds]\ntune = 1\nreport = [11, 12]\n";
const std::string kMethod = "[[method]]\nmethod = \"distro:k=16\"\nlr = [0.002, 0.004]\n";

class PlanFileTest : public testing::Test {
 protected:
  PlanFileTest() {
    std::string pattern = (fs::temp_directory_path() / "thinwire_plan_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  ~PlanFileTest() override { fs::remove_all(dir_); }

  Plan read(const std::string& text) const {
    std::ofstream(dir_ / "p.toml") << text;
    return read_plan(dir_ / "p.toml", optimizer_catalog());
  }

  // The place and a part of the complaint.
  void expect_refused(const std::string& text, const std::string& place,
                      const std::string& part) const {
    SCOPED_TRACE(text);
    try {
      read(text);
      ADD_FAILURE() << "was taken";
    } catch (const UsageError& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
      EXPECT_NE(what.find("p.toml, " + place + ": "), std::string::npos) << what;
      EXPECT_NE(what.find(part), std::string::npos) << what;
    }
  }

  static const PlanMethod* find(const Plan& plan, const std::string& label) {
    for (const PlanMethod& method : plan.methods) {
      if (method.label == label) return &method;
    }
    return nullptr;
  }

  fs::path dir_;
};

TEST_F(PlanFileTest, ReadsAWholePlan) {
  const Plan plan = read(
      "name = \"all of it\"\n[run]\nsteps = 40\nbatch = 8\n[model]\npreset = \"nano\"\n"
      "[schedule]\nwarmup = 3\n" +
      kSeeds +
      "[[size]]\nname = \"one\"\nmodel.layers = 1\n[[size]]\nname = \"two\"\nrun.steps = 50\n"
      "model.layers = 2\n[[method]]\nlabel = \"mine\"\nmethod = \"distro:k=16\"\nlr = [0.004, "
      "2e-3]\ngrid.decay = [0.9, 0.99]\ngrid.delay = 1\nextend = true\nsizes = [\"one\"]\n"
      "[[expect]]\na = \"mine\"\nb = \"adamw\"\nmax_gap = 0.5\nsize = \"one\"\n");
  EXPECT_EQ(plan.name, "all of it");
  ASSERT_EQ(plan.sizes.size(), 2u);
  EXPECT_EQ(plan.sizes[0].steps, 40u);
  EXPECT_EQ(plan.sizes[1].steps, 50u);
  EXPECT_GT(plan.sizes[1].parameters, plan.sizes[0].parameters);
  const PlanMethod* mine = find(plan, "mine");
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(mine->lrs, (std::vector<float>{2e-3f, 4e-3f}));
  EXPECT_TRUE(mine->extend);
  EXPECT_EQ(grid_points(*mine).size(), 4u);
  EXPECT_TRUE(takes_part(*mine, plan.sizes[0]));
  EXPECT_FALSE(takes_part(*mine, plan.sizes[1]));
  ASSERT_EQ(plan.expectations.size(), 1u);
  EXPECT_EQ(plan.expectations[0].max_gap, 0.5);
}

TEST_F(PlanFileTest, CountsTheParametersOfTheReadmesModel) {
  const Plan plan = read(kHead + kSeeds + kMethod);
  ASSERT_EQ(plan.sizes.size(), 1u);
  EXPECT_EQ(plan.sizes[0].name, "nano");
  EXPECT_NEAR(static_cast<double>(plan.sizes[0].parameters), 0.14e6, 0.01e6);
}

TEST_F(PlanFileTest, AddsTheBaselinesThatAreNotListed) {
  const Plan plan = read(kHead + kSeeds + kMethod);
  const PlanMethod* adamw = find(plan, "adamw");
  ASSERT_NE(adamw, nullptr);
  EXPECT_TRUE(adamw->added);
  EXPECT_TRUE(adamw->extend);
  EXPECT_EQ(grid_points(*adamw).size(), 6u);  // three rates, two of beta1
  const PlanMethod* alone = find(plan, "alone");
  ASSERT_NE(alone, nullptr);
  EXPECT_TRUE(alone->alone);
  EXPECT_EQ(plan.methods.front().label, "adamw");
  // Those the catalog lacks are named, not forgotten.
  for (const auto& [label, name] : {std::pair{"muon", "muon"}, {"averaging", "diloco"}}) {
    if (find(plan, label) != nullptr) continue;
    const std::string note =
        std::string("'") + label + "' is left out: this program has no " + "method '" + name + "'";
    bool noted = false;
    for (const std::string& one : plan.notes) noted = noted || one.find(note) != one.npos;
    EXPECT_TRUE(noted) << note;
  }
}

TEST_F(PlanFileTest, ListedBaselinesKeepTheirGrid) {
  const Plan plan = read(kHead + kSeeds + "[[method]]\nmethod = \"adamw\"\nlr = 0.01\n");
  EXPECT_EQ(find(plan, "adamw")->lrs, std::vector<float>{0.01f});
  EXPECT_FALSE(find(plan, "adamw")->added);
  EXPECT_EQ(find(plan, "alone")->lrs, std::vector<float>{0.01f});  // as adamw
}

TEST_F(PlanFileTest, OneSiteAloneGetsItsPartOfTheBatch) {
  const Plan plan = read(kHead + "[run]\nsites = 4\nbatch = 16\n" + kSeeds + kMethod);
  const PlanMethod& alone = *find(plan, "alone");
  const FlatConfig config = cell_config(plan.sizes[0], alone, grid_points(alone)[0], 11);
  EXPECT_EQ(config.at("run.sites"), "1");
  EXPECT_EQ(config.at("run.batch"), "4");
  EXPECT_EQ(config.at("run.seed"), "11");
  EXPECT_NO_THROW(resolve(config, optimizer_catalog()));
}

TEST_F(PlanFileTest, NamesThePlaceOfAMistakeInTheSyntax) {
  expect_refused(kHead + "[seeds\n", "line 2, column 7", "");
}

TEST_F(PlanFileTest, NamesThePlaceOfAnUnknownKey) {
  expect_refused(kHead + "sedes = 1\n", "line 2, column 1", "unknown key 'sedes'; did you mean 's");
  expect_refused(kHead + kSeeds + kMethod + "grdi.k = 4\n", "line 8, column 1", "'grid'");
  expect_refused(kHead + kSeeds + "tuen = 4\n" + kMethod, "line 5, column 1", "'tune'");
  expect_refused(kHead + kSeeds + "[[size]]\nname = \"a\"\nmodle.layers = 1\n" + kMethod,
                 "line 7, column 1", "'model'");
  expect_refused(kHead + "[run]\nstepz = 4\n" + kSeeds + kMethod, "line 3, column 1", "'steps'");
  expect_refused(kHead + "[model]\npreset = \"nano\"\nwidht = 4\n" + kSeeds + kMethod,
                 "line 4, column 1", "'width'");
}

TEST_F(PlanFileTest, NamesThePlaceOfAWrongValue) {
  expect_refused(kHead + "[run]\nsteps = \"many\"\n" + kSeeds + kMethod, "line 3, column 1",
                 "steps must be an integer");
  expect_refused(kHead + kSeeds + kMethod + "extend = 1\n", "line 8, column 10", "true or false");
  expect_refused("name = 5\n", "line 1, column 8", "name must be a text");
}

TEST_F(PlanFileTest, NamesThePlaceOfAnUnknownMethodOrSetting) {
  expect_refused(kHead + kSeeds + "[[method]]\nmethod = \"adamv\"\n", "line 6, column 10",
                 "unknown optimizer 'adamv'");
  expect_refused(kHead + kSeeds + "[[method]]\nmethod = \"distro:q=4\"\n", "line 6, column 10",
                 "no setting 'q'");
  expect_refused(kHead + kSeeds + kMethod + "grid.q = [1, 2]\n", "line 8, column 11", "'q'");
  expect_refused(kHead + kSeeds + kMethod + "grid.k = [4, -2]\n", "line 8, column 14", "-2");
  expect_refused(kHead + kSeeds + "[[method]]\nmethod = \"distro\"\nlr = [0.1, -1]\n",
                 "line 7, column 12", "above 0");
  expect_refused(kHead + kSeeds + "[[method]]\nmethod = \"adamw,distro\"\n", "line 6, column 10",
                 "one method");
}

TEST_F(PlanFileTest, RefusesSeedsThatAreNotApart) {
  expect_refused(kHead + "[seeds]\ntune = 11\nreport = [10, 11]\n" + kMethod, "line 4, column 15",
                 "seed 11 is there already");
  expect_refused(kHead + "[seeds]\ntune = [1, 1]\nreport = [10]\n" + kMethod, "line 3, column 12",
                 "seed 1 is there already");
}

TEST_F(PlanFileTest, RefusesAPlanWithoutSeedsNameOrMethods) {
  expect_refused(kHead + kMethod, "line 1, column 1", "there are no seeds");
  expect_refused(kHead + "[seeds]\ntune = 1\n" + kMethod, "line 2, column 1", "no report seeds");
  expect_refused(kHead + "[seeds]\nreport = 1\n" + kMethod, "line 2, column 1", "no tune seeds");
  expect_refused(kHead + "[seeds]\ntune = 1\nreport = []\n" + kMethod, "line 4, column 10",
                 "is empty");
  expect_refused(kHead + "[seeds]\ntune = -1\nreport = [1]\n" + kMethod, "line 3, column 8",
                 "whole numbers");
  expect_refused(kSeeds + kMethod, "line 1, column 1", "no name");
  expect_refused("name = \"a\\nb\"\n" + kSeeds + kMethod, "line 1, column 8", "no name for");
  expect_refused(kHead + kSeeds + kMethod + "label = \"" + std::string(61, 'a') + "\"\n",
                 "line 8, column 9", "no name for");
  expect_refused(kHead + kSeeds, "line 1, column 1", "no method");
}

TEST_F(PlanFileTest, RefusesMoreSeedsThanThereAreQuantilesFor) {
  std::string seeds = "100";
  for (int seed = 101; seed < 132; ++seed) seeds += ", " + std::to_string(seed);
  expect_refused(kHead + "[seeds]\ntune = 1\nreport = [" + seeds + "]\n" + kMethod,
                 "line 2, column 1", "at most 31");
}

TEST_F(PlanFileTest, RefusesAnEmptyGrid) {
  expect_refused(kHead + kSeeds + "[[method]]\nmethod = \"distro\"\nlr = []\n", "line 7, column 6",
                 "lr is empty");
  expect_refused(kHead + kSeeds + kMethod + "grid.k = []\n", "line 8, column 10", "k is empty");
  expect_refused(kHead + kSeeds + kMethod + "grid.k = [4, 4]\n", "line 8, column 14", "twice");
  expect_refused(kHead + kSeeds + kMethod + "grid.lr = [4]\n", "line 8, column 6", "beside");
}

TEST_F(PlanFileTest, RefusesNamesThatAreTaken) {
  expect_refused(kHead + kSeeds + "[[size]]\nname = \"a\"\n[[size]]\nname = \"a\"\n" + kMethod,
                 "line 8, column 8", "two sizes are called 'a'");
  expect_refused(kHead + kSeeds + kMethod + kMethod, "line 8, column 1", "two methods");
  expect_refused(kHead + kSeeds + "[[method]]\nlabel = \"adamw\"\nmethod = \"sgd\"\n",
                 "line 5, column 1", "that of a baseline");
  expect_refused(kHead + kSeeds + "[[size]]\nname = \"a\"\n[[method]]\nmethod = \"adamw\"\n" +
                     "sizes = [\"a\"]\n",
                 "line 9, column 9", "runs at every size");
}

TEST_F(PlanFileTest, RefusesWhatPlansDecideThemselves) {
  expect_refused(kHead + "[run]\nseed = 4\n" + kSeeds + kMethod, "line 3, column 1", "[seeds]");
  expect_refused(kHead + "[run]\nout = \"x\"\n" + kSeeds + kMethod, "line 3, column 1", "--out");
  expect_refused(kHead + "[run]\nguard = \"rollback\"\n" + kSeeds + kMethod, "line 3, column 1",
                 "checkpoints");
}

TEST_F(PlanFileTest, RefusesExpectationsOfNobody) {
  const std::string all = kHead + kSeeds + kMethod + "[[expect]]\n";
  expect_refused(all + "a = \"distro\"\nb = \"adamw\"\nmax_gap = 0\n", "line 9, column 5",
                 "no method 'distro'; did you mean 'distro:k=16'");
  expect_refused(all + "a = \"adamw\"\nmax_gap = 0\n", "line 8, column 1", "needs b");
  expect_refused(all + "a = \"adamw\"\n", "line 8, column 1", "expects nothing");
  expect_refused(all + "a = \"adamw\"\nmax_loss = 1\nsize = \"b\"\n", "line 11, column 8",
                 "no size 'b'");
}

TEST_F(PlanFileTest, ReadsThePlansOfTheTree) {
  const fs::path plans = fs::path(THINWIRE_SOURCE_DIR) / "plans";
  EXPECT_EQ(read_plan(plans / "ci.toml", optimizer_catalog()).expectations.size(), 6u);
  const Plan nightly = read_plan(plans / "nightly.toml", optimizer_catalog());
  EXPECT_NEAR(static_cast<double>(nightly.sizes[0].parameters), 0.8e6, 0.1e6);
  // The baselines of all three have grids of their own.
  EXPECT_TRUE(nightly.notes.empty());
  for (const PlanMethod& method : nightly.methods) EXPECT_FALSE(method.added) << method.label;
  EXPECT_EQ(read_plan(plans / "release.toml", optimizer_catalog()).sizes.size(), 3u);
}

TEST_F(PlanFileTest, SaysWhyAFileCannotBeRead) {
  EXPECT_THROW(read_plan(dir_ / "none.toml", optimizer_catalog()), UsageError);
  EXPECT_THROW(read_plan(dir_, optimizer_catalog()), UsageError);
}

}  // namespace
}  // namespace thinwire::app
