// The audit of runs between processes finds each kind of broken promise.
#include "tests/support/site_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/far_fleet.h"

namespace thinwire::test {
namespace {

// Two sites and three rounds; site 1 was left out of round 1 and takes it back.
const std::vector<std::string> kGood{
    "site 0 2\nsaid 0 a0\nsaid 1 a1\nheard 0 0=a0 1=b0\nsaid 2 a2\nheard 1 0=a1\n"
    "heard 2 0=a2 1=b2\nstep 0 9 50 1.0\nstep 1 8 51 2.0\nstep 2 7 52 3.0\nend 53\n",
    "site 1 2\nsaid 0 b0\nsaid 1 b1\nheard 0 0=a0 1=b0\nsaid 2 b2\nheard 1 0=a1\nunheard 1\n"
    "heard 2 0=a2 1=b2\nstep 0 9 50 1.0\nstep 1 8 51 2.0\nstep 2 7 52 3.0\nend 53\n"};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

std::vector<std::string> audited(const std::vector<std::string>& texts) {
  const ScratchDir dir;
  std::vector<SiteLog> logs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string path = dir.path(std::to_string(i));
    std::ofstream(path) << texts[i];
    logs.emplace_back(path);
    logs.back().name = "site " + std::to_string(i);
    logs.back().update();
  }
  return audit(logs);
}

void expect_fault(const std::string& what, const std::string& with, const std::string& words) {
  const auto faults = audited({kGood[0], replaced(kGood[1], what, with)});
  ASSERT_FALSE(faults.empty()) << with;
  bool found = false;
  for (const std::string& fault : faults) found = found || fault.find(words) != std::string::npos;
  EXPECT_TRUE(found) << faults[0] << " lacks: " << words;
}

TEST(SiteLog, AGoodRunHasNoFaults) { EXPECT_EQ(audited(kGood), std::vector<std::string>{}); }

TEST(SiteLog, AKilledSiteHasSaidMoreThanItHeard) {
  const std::string cut = kGood[1].substr(0, kGood[1].find("heard 1")) + "hea";
  EXPECT_EQ(audited({kGood[0], cut}), std::vector<std::string>{});
}

TEST(SiteLog, EachBrokenPromiseIsFound) {
  expect_fault("heard 2 0=a2 1=b2", "heard 2 0=a2 1=b3", "round 2 differs");
  expect_fault("step 1 8 51", "step 1 8 99", "state after step 1");
  expect_fault("heard 1 0=a1\nunheard 1\n", "", "round 0 is followed by 2");
  expect_fault("step 1 8 51 2.0\n", "", "step 0 is followed by 2");
  expect_fault("step 1 8 51", "step 0 8 51", "twice step 0");
  expect_fault("unheard 1\n", "", "lost what it said in round 1");
  expect_fault("unheard 1\n", "unheard 1\nunheard 1\n", "twice unheard 1");
  expect_fault("unheard 1\n", "unheard 1\nunheard 2\n", "took back round 2");
  expect_fault("unheard 1\n", "unheard 1\nunheard 7\n", "took back round 7");
  expect_fault("said 2 b2", "said 2 b3", "site 1 in round 2 never said that");
}

TEST(SiteLog, ATakenOverStateMaySkipStepsAndOwesNothing) {
  const std::string late =
      "site 1 2\nsaid 0 b0\nsaid 1 b1\nheard 0 0=a0 1=b0\nstep 0 9 50 1.0\ntook 2\nsaid 2 b2\n"
      "heard 2 0=a2 1=b2\nstep 2 7 52 3.0\nend 53\n";
  EXPECT_EQ(audited({kGood[0], late}), std::vector<std::string>{});
  EXPECT_FALSE(audited({kGood[0], replaced(late, "took 2\n", "")}).empty());
}

TEST(SiteLog, AnUpdateThatCountsTwiceIsFound) {
  std::vector<std::string> texts;
  for (const std::string& text : kGood) {
    texts.push_back(replaced(replaced(text, "said 2 ", "said 3 "), "heard 2 0=a2 1=b2",
                             "heard 2 1=b0\nsaid 2 b0"));
  }
  const auto faults = audited(texts);
  bool found = false;
  for (const std::string& one : faults)
    found = found || one == "site 1 in round 2 is also in round 0";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace thinwire::test
