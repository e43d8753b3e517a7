// The far link's promises under faults between real processes, in short; the long ones are figures
// (bench/far_faults_bench.cc).
#include "tests/support/far_faults.h"

#include <gtest/gtest.h>

namespace thinwire::test {
namespace {

void expect_none(const FaultReport& report) {
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

TEST(FarFaults, AKilledSiteStopsNobody) {
  expect_none(kill_sites({.moments = 2, .slack_s = 5.0, .seed = 7}));
}

TEST(FarFaults, AKilledHubThatComesBackLosesNoStep) {
  expect_none(
      kill_hub({.moments = 2, .down_min_s = 0.2, .down_max_s = 1.0, .all_in = false, .seed = 7}));
}

TEST(FarFaults, AMethodThatSpeaksRarelyLosesNothingEither) {
  for (const int delay : {0, 3}) expect_none(speak_rarely(delay, 1));
}

// The state is given by sites that stand still in silent steps, too.
TEST(FarFaults, ARunOfRareWordsThatStandsStillLetsTheMissingSiteIn) {
  for (const int delay : {0, 3}) expect_none(speak_rarely(delay, 3));
}

TEST(FarFaults, AFrozenLinkLosesAndDoublesNothing) {
  expect_none(bad_link({.sites_cut = 1, .seconds = 3.0, .step_ms = 100, .peer_timeout_s = 1.0}));
}

TEST(FarFaults, AProxyThatStandsStillLosesAndDoublesNothing) {
  expect_none(bad_link({.seconds = 2.0, .step_ms = 50, .peer_timeout_s = 1.0, .proxies = true}));
}

TEST(FarFaults, APartitionHealsIntoOneHistory) {
  expect_none(bad_link(
      {.sites_cut = 2, .seconds = 3.0, .step_ms = 100, .peer_timeout_s = 1.0, .vanish = true}));
}

TEST(FarFaults, ChurnHarmsNobody) {
  expect_none(churn({.seconds = 60.0, .every_s = 2.0, .peer_timeout_s = 2.0}));
}

TEST(FarFaults, StrangersAreRefusedAndTheRunDoesNotNotice) { expect_none(strangers(10.0)); }

}  // namespace
}  // namespace thinwire::test
