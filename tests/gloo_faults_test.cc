// Ranks as processes, one of which is killed or frozen in an operation.
#include "tests/support/gloo_faults.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace thinwire::test {
namespace {

void expect_named(const GlooFault& fault) {
  const auto reports = play_gloo_fault(fault);
  EXPECT_EQ(reports.size(), static_cast<std::size_t>(fault.ranks) - 1);
  EXPECT_EQ(judge(fault, reports), "") << fault.operation;
}

TEST(GlooFaults, AKilledRankIsNamedByAllOthersWhoGoOnWithoutIt) {
  for (const char* operation : {"all_reduce_mean", "reduce_scatter_mean", "all_gather"}) {
    expect_named({.signal = SIGKILL, .operation = operation});
  }
}

TEST(GlooFaults, AFrozenRankIsNamedByAllOthersWithinTheDeadline) {
  expect_named({.signal = SIGSTOP, .deadline_ms = 700});
  expect_named({.ranks = 3, .signal = SIGSTOP, .operation = "barrier", .deadline_ms = 700});
}

}  // namespace
}  // namespace thinwire::test
