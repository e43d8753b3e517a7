// What goes wrong over NCCL, played by its stand-in: every wait ends, everyone hears why, and the
// ranks that are left connect anew.
#include <gtest/gtest.h>

#include "tests/support/nccl_ranks.h"

namespace thinwire::test {
namespace {

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

NcclSetting setting(int members, FakeFault fault, bool processes = false) {
  NcclSetting setting(members);
  setting.processes = processes;
  setting.options.deadline = milliseconds(250);
  setting.options.connect_timeout = milliseconds(250);
  setting.options.abort_deadline = milliseconds(250);
  setting.options.piece = 1000;
  setting.library.faults = {fault};
  return setting;
}

Words all_say(int ranks, const std::string& text) { return Words(ranks, text); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

void expect_all(const Words& said, const std::string& part) {
  for (const std::string& one : said) EXPECT_TRUE(has(one, part)) << one;
}

// Each rank's mean of its own number, as it should be or an Error.
Words average(NcclRanks& ranks, int members) {
  return ranks.play([&](int rank) {
    std::vector<float> whole(8, static_cast<float>(rank));
    ranks.near(rank).all_reduce_mean(whole);
    EXPECT_EQ(whole, std::vector<float>(8, static_cast<float>(members - 1) / 2.0f));
  });
}

// In a second or two, however many waits there were.
class NcclFaults : public testing::TestWithParam<bool> {
 protected:
  ~NcclFaults() override { EXPECT_LT(Clock::now() - begin_, std::chrono::seconds(4)); }
  bool processes() const { return GetParam(); }

 private:
  const Clock::time_point begin_ = Clock::now();
};

INSTANTIATE_TEST_SUITE_P(Ranks, NcclFaults, testing::Bool(),
                         [](const auto& one) { return one.param ? "AreProcesses" : "AreThreads"; });

// All ranks fail; the cause goes away and each connects anew as soon as it knows. What they said.
Words fail_and_rebuild(NcclRanks& ranks, int members) {
  const Words said = ranks.play([&](int rank) {
    std::vector<float> whole(8);
    try {
      for (int turn = 0; turn < 20; ++turn) ranks.near(rank).all_reduce_mean(whole);
      ADD_FAILURE() << "rank " << rank << " did not fail";
    } catch (const Error& error) {
      const std::string what = error.what();
      try {
        ranks.near(rank).barrier();
        ADD_FAILURE() << "rank " << rank << " failed and goes on";
      } catch (const Error& again) {
        EXPECT_EQ(again.what(), what);  // it stays as it is
      }
      ranks.library().forgive();
      ranks.near(rank).rebuild();
      throw Error(what);
    }
  });
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(average(ranks, members), all_say(members, ""));
  EXPECT_EQ(ranks.library().misuses(), 0);
  return said;
}

TEST_P(NcclFaults, AnOperationThatHangsEndsAtItsDeadline) {
  NcclRanks ranks(setting(3, {.rank = 1, .after_calls = 4, .operation_hangs = true}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(3, ""));
  expect_all(fail_and_rebuild(ranks, 3),
             "all_reduce_mean was not done within 250 ms though all ranks");
  EXPECT_EQ(ranks.library().count("abort"), 3);  // once a communicator
  EXPECT_EQ(ranks.library().count("revoke"), 3);
}

TEST_P(NcclFaults, WhatIsInProgressForEverEndsToo) {
  NcclRanks ranks(setting(2, {.rank = 0, .never_taken = true}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  expect_all(fail_and_rebuild(ranks, 2), "all_reduce_mean was not done within 250 ms");
}

TEST_P(NcclFaults, ARemoteErrorIsHeardAndRebuilt) {
  NcclRanks ranks(setting(2, {.rank = 1, .state = NcclResult::remote}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Words said = fail_and_rebuild(ranks, 2);
  EXPECT_TRUE(has(said[1], "all_reduce_mean failed (remote error")) << said[1];
}

// The call itself went well, and so did the stream.
TEST_P(NcclFaults, AnErrorAfterTheCallIsNotMissed) {
  for (NcclResult result : {NcclResult::cuda, NcclResult::system, NcclResult::internal}) {
    NcclRanks ranks(setting(2, {.rank = 0, .after_calls = 4, .state = result}, processes()));
    ASSERT_EQ(ranks.connect(), all_say(2, ""));
    const Words said = fail_and_rebuild(ranks, 2);
    EXPECT_TRUE(has(said[0], "near: rank 0 failed in all_reduce_mean: " +
                                 std::string(text_of(result)) + ": the fake said so"))
        << said[0];
  }
}

TEST_P(NcclFaults, AnErrorOfTheLastOperationIsHeardInIt) {
  NcclRanks ranks(setting(2, {.rank = 1, .state = NcclResult::system}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Words said = ranks.play([&](int rank) {
    std::vector<float> data(8);
    ranks.near(rank).broadcast(data, 0);
  });
  EXPECT_TRUE(has(said[1], "near: rank 1 failed in broadcast: system error")) << said[1];
}

TEST_P(NcclFaults, ACallThatFailsAtOnceIsHeard) {
  NcclRanks ranks(setting(3, {.rank = 2, .answers = NcclResult::system}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(3, ""));
  const Words said = fail_and_rebuild(ranks, 3);
  expect_all(said, "near: rank 2 failed in all_reduce_mean: system error");
  const std::string told =
      "near: all_reduce_mean was not done within 250 ms: rank 2 has given up: ";
  EXPECT_EQ(said[0], (processes() ? told : "") + said[2]);
}

TEST_P(NcclFaults, ADeviceThatIsLostIsNamed) {
  NcclRanks ranks(setting(2, {.rank = 1, .device_is_lost = true}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  expect_all(fail_and_rebuild(ranks, 2),
             "near: rank 1 failed in all_reduce_mean: the CUDA device failed");
}

TEST_P(NcclFaults, ARankThatIsNeverConnectedEndsTheWaitOfAll) {
  NcclRanks ranks(setting(2, {.rank = 1, .init_hangs = true}, processes()));
  expect_all(ranks.connect(), "near: connecting the ranks was not done within 250 ms");
  EXPECT_EQ(ranks.library().misuses(), 0);
}

TEST_P(NcclFaults, ARankThatNcclDoesNotTakeSaysWhy) {
  NcclRanks ranks(setting(2, {.rank = 0, .init_answers = NcclResult::cuda}, processes()));
  const Words said = ranks.connect();
  EXPECT_TRUE(has(said[0],
                  "near: rank 0 failed in connecting the ranks: unhandled CUDA error: the "
                  "fake said so"))
      << said[0];
  EXPECT_NE(said[1], "");
  EXPECT_EQ(ranks.library().misuses(), 0);
}

TEST_P(NcclFaults, ARankThatDoesNotComeToBeConnectedIsNamed) {
  NcclRanks ranks(setting(3, {}, processes()));
  NcclRanks* const all = &ranks;
  LoopbackWorld control({.ranks = 3, .deadline = milliseconds(200)});
  const Words said = ranks.play([&](int rank) {
    if (rank == 2) return;
    NcclNear near(all->clique(rank), control.near(0, rank), all->options());
  });
  EXPECT_EQ(said[0], "site 0: rank 2 did not come to all_gather within 200 ms");
  EXPECT_EQ(said[1], said[0]);
}

TEST_P(NcclFaults, AnAbortThatFailsIsSaidAndTheProcessMustEnd) {
  NcclRanks ranks(setting(
      2, {.rank = 1, .operation_hangs = true, .abort_answers = NcclResult::internal}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Words said = average(ranks, 2);
  const std::string lost =
      "; NCCL could not be stopped (internal error) and its communicator is "
      "lost: end this process and go on from a checkpoint";
  EXPECT_TRUE(has(said[1], lost)) << said[1];
  ranks.library().forgive();
  if (processes()) return;  // the other one waits for it at the control link, and hears that
  EXPECT_TRUE(has(said[0], lost)) << said[0];
  expect_all(ranks.play([&](int rank) { ranks.near(rank).rebuild(); }), lost);
}

TEST_P(NcclFaults, AnAbortThatHangsIsLeftBehind) {
  NcclRanks ranks(
      setting(2, {.rank = 0, .operation_hangs = true, .abort_hangs = true}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Clock::time_point begin = Clock::now();
  const Words said = average(ranks, 2);
  EXPECT_TRUE(has(said[0], "; NCCL could not be stopped (no answer for 250 ms)")) << said[0];
  EXPECT_LT(Clock::now() - begin, milliseconds(1500));
  EXPECT_EQ(ranks.library().misuses(), 0);
}

TEST_P(NcclFaults, LeavingHangsNoLongerThanItsDeadline) {
  const Clock::time_point begin = Clock::now();
  {
    NcclRanks ranks(setting(2, {.rank = 1, .destroy_hangs = true}, processes()));
    ASSERT_EQ(ranks.connect(), all_say(2, ""));
    EXPECT_EQ(average(ranks, 2), all_say(2, ""));
    ranks.leave(0);
    ranks.leave(1);
    EXPECT_LT(Clock::now() - begin, milliseconds(1500));
  }
}

// Who is torn down by an exception has its communicator aborted: to destroy it may hang.
TEST_P(NcclFaults, ARankThatCrashesIsAbortedAndNotDestroyed) {
  NcclRanks ranks(setting(2, {.rank = 1, .destroy_hangs = true}, processes()));
  LoopbackWorld control({.ranks = 2, .deadline = milliseconds(300)});
  const Words said = ranks.play([&](int rank) {
    NcclNear near(ranks.clique(rank), control.near(0, rank), ranks.options());
    if (rank == 1) throw Error("out of memory");
    std::vector<float> whole(8);
    near.all_reduce_mean(whole);
  });
  EXPECT_EQ(said[1], "out of memory");
  const std::string text = processes() ? "rank 1 did not come" : "near: rank 1 has given up";
  EXPECT_TRUE(has(said[0], text)) << said[0];
  EXPECT_EQ(ranks.library().count("destroy"), 0);
  EXPECT_EQ(ranks.library().misuses(), 0);
}

TEST_P(NcclFaults, AnArgumentThatIsRefusedChangesNothing) {
  for (NcclResult result : {NcclResult::invalid_argument, NcclResult::invalid_usage}) {
    NcclSetting both = setting(2, {.rank = 0, .answers = result}, processes());
    both.library.faults.push_back({.rank = 1, .answers = result});
    NcclRanks ranks(both);
    ASSERT_EQ(ranks.connect(), all_say(2, ""));
    EXPECT_EQ(ranks.play([&](int rank) {
      std::vector<float> data(8);
      ranks.near(rank).broadcast(data, 0);
    }),
              all_say(2, "near: NCCL refuses broadcast (" + std::string(text_of(result)) +
                             ": the fake said so); the ranks are still connected"));
    EXPECT_EQ(average(ranks, 2), all_say(2, ""));
    EXPECT_EQ(ranks.library().count("abort"), 0);
  }
}

TEST_P(NcclFaults, WhoWasRefusedIsNotTakenForInsideNccl) {
  NcclRanks ranks(setting(2, {.rank = 0, .answers = NcclResult::invalid_argument}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Words said = ranks.play([&](int rank) {
    std::vector<float> data(8);
    ranks.near(rank).broadcast(data, 1);
  });
  EXPECT_TRUE(has(said[0], "NCCL refuses broadcast")) << said[0];
  EXPECT_TRUE(has(said[1], "near: broadcast was not done")) << said[1];
  EXPECT_FALSE(has(said[1], "could not be stopped")) << said[1];
}

TEST_P(NcclFaults, RanksInDifferentOperationsAreTold) {
  NcclRanks ranks(setting(2, {}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  expect_all(ranks.play([&](int rank) {
    std::vector<float> data(rank == 1 ? 4000 : 4);
    rank == 1 ? ranks.near(rank).broadcast(data, 1) : ranks.near(rank).all_reduce_mean(data);
  }),
             "rank 1 calls broadcast of 4000 floats from rank 1 where rank 0 calls all_reduce_mean "
             "of 4 floats; all must call the same operations");
  EXPECT_EQ(ranks.play([&](int rank) { ranks.near(rank).rebuild(); }), all_say(2, ""));
  EXPECT_EQ(average(ranks, 2), all_say(2, ""));
}

TEST_P(NcclFaults, TwoRanksOnOneDeviceAreRefusedBeforeNcclIsAsked) {
  NcclSetting one = setting(2, {}, processes());
  one.library.one_device = true;
  NcclRanks ranks(one);
  EXPECT_EQ(ranks.connect(),
            all_say(2,
                    "near: ranks 0 and 1 of this site are both on CUDA device -1 (GPU-0); NCCL "
                    "needs one device a rank: give each its own, or use --near gloo"));
}

TEST_P(NcclFaults, WithoutRevokeAndMemoryOfItsOwnItAbortsAllTheSame) {
  NcclSetting old = setting(2, {.rank = 1, .operation_hangs = true}, processes());
  old.library.has_revoke = old.library.has_memory = false;
  NcclRanks ranks(old);
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  expect_all(fail_and_rebuild(ranks, 2), "all_reduce_mean was not done");
}

TEST_P(NcclFaults, ConnectingAnewWithoutAFailureIsFineToo) {
  NcclRanks ranks(setting(3, {}, processes()));
  ASSERT_EQ(ranks.connect(), all_say(3, ""));
  EXPECT_EQ(average(ranks, 3), all_say(3, ""));
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(ranks.play([&](int rank) { ranks.near(rank).rebuild(); }), all_say(3, ""));
    EXPECT_EQ(average(ranks, 3), all_say(3, ""));
  }
  EXPECT_EQ(ranks.library().misuses(), 0);
}

TEST(NcclVersions, OfProcessesMustBeEqual) {
  NcclSetting other = setting(2, {}, true);
  other.library.versions = {22809, 22304};
  NcclRanks ranks(other);
  EXPECT_EQ(ranks.connect(), all_say(2,
                                     "near: rank 1 has NCCL 2.23.4 where rank 0 has 2.28.9; "
                                     "install the same version everywhere"));
}

TEST(NcclThreads, WhoIsMissingIsNamedAndWhoComesLateHearsWhy) {
  NcclRanks ranks(setting(4, {}));
  ASSERT_EQ(ranks.connect(), all_say(4, ""));
  const Words said = ranks.play([&](int rank) {
    if (rank == 1) return;
    if (rank == 3) std::this_thread::sleep_for(milliseconds(600));
    std::vector<float> whole(8);
    ranks.near(rank).all_reduce_mean(whole);
  });
  const std::string text = "near: rank 1, rank 3 did not come to all_reduce_mean within 250 ms";
  EXPECT_EQ(said, (Words{text, "", text, text}));
}

TEST(NcclThreads, AThreadThatIsNoRankYetEndsTheWaitOfAll) {
  NcclSetting patient = setting(2, {});
  patient.options.deadline = std::chrono::hours(1);
  NcclRanks ranks(patient);
  ASSERT_EQ(ranks.connect(), all_say(2, ""));
  const Words said = ranks.play([&](int rank) {
    std::this_thread::sleep_for(milliseconds(50 * rank));
    if (rank == 1) return ranks.clique(0).fail("another rank failed");
    std::vector<float> whole(8);
    ranks.near(rank).all_reduce_mean(whole);
  });
  EXPECT_EQ(said[0], "another rank failed");
}

TEST(NcclOptionsTest, WhatMakesNoSenseIsRefused) {
  const auto library = std::make_shared<FakeLibrary>();
  LoopbackWorld control({.ranks = 2, .deadline = milliseconds(100)});
  EXPECT_THROW(NcclClique(0, library->process()), UsageError);
  NcclClique three(3, library->process());
  EXPECT_THROW(NcclNear(three, control.near(0, 0), {}), UsageError);
  NcclClique two(2, library->process());
  NcclOptions nothing;
  nothing.piece = 0;
  EXPECT_THROW(NcclNear(two, control.near(0, 0), nothing), UsageError);
}

}  // namespace
}  // namespace thinwire::test
