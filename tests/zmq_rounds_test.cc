// What a site holds of the rounds, and what it says again.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/site_world.h"

namespace thinwire::hub {
namespace {

TEST(ZmqRounds, TrustsNoResultThatCannotBe) {
  const auto verdict = [](Closed closed, bool posted) {
    SiteRounds rounds({.parts = 1});
    rounds.welcome(1, 0, false);
    if (posted) rounds.post(closed.slot, Bytes(3));
    return rounds.close(std::move(closed), 0);
  };
  const Slot gather{{0, 2, 0}, Kind::gather, 0};
  const Slot reduce{{0, 2, 0}, Kind::reduce, 0};
  EXPECT_EQ(verdict({gather, true, {{0, {}}}, {}}, true), "");
  EXPECT_NE(verdict({gather, true, {{0, {}}}, {}}, false), "");
  EXPECT_NE(verdict({gather, true, {{1, {}}}, {}}, true), "");
  EXPECT_NE(verdict({gather, true, {{2, {}}, {0, {}}}, {}}, true), "");
  EXPECT_NE(verdict({reduce, true, {{0, {}}, {1, {}}}, {}}, true), "");
  EXPECT_NE(verdict({{{0, 2, 0}, Kind::gather, 1}, false, {}, {}}, false), "");
}

TEST(ZmqRounds, KeepsTheLastRoundsForAHubThatAsks) {
  SiteRounds rounds({.parts = 1, .rounds_kept = 8});
  rounds.welcome(1, 0, false);
  for (std::uint64_t number = 0; number < 30; ++number) {
    const Slot slot{{0, number, 0}, Kind::gather, 0};
    rounds.post(slot, frame_of(1, 0, number));
    EXPECT_EQ(rounds.close({slot, true, {{0, frame_of(0, 0, number)}}, {}}, 0), "");
    EXPECT_EQ(rounds.collect(slot).frames.size(), 2u);
  }
  int kept = 0;
  for (std::uint64_t number = 0; number < 30; ++number) {
    const auto bundle = rounds.bundle({{0, number, 0}, Kind::gather, 0});
    if (!bundle) continue;
    ++kept;
    ASSERT_EQ(bundle->frames.size(), 2u);
    EXPECT_EQ(bundle->frames[1].bytes, frame_of(1, 0, number));
  }
  EXPECT_EQ(kept, 9);  // and the one that the ranks are in
  EXPECT_EQ(rounds.next_round(), 29u);
  ASSERT_EQ(rounds.ahead().size(), 1u);
}

TEST(ZmqRounds, AskForNothingWhilePiecesOfAnAnswerCome) {
  SiteRounds rounds({.parts = 1, .again_s = 2.0});
  rounds.welcome(0, 0, false);
  const Slot slot{{0, 0, 0}, Kind::gather, 0};
  rounds.post(slot, Bytes(3));
  rounds.wait_for(slot);
  ASSERT_TRUE(rounds.next(10.0)) << "the post";
  rounds.taken(slot);
  for (double time = 10.0; time < 30.0; time += 0.5) {
    EXPECT_FALSE(rounds.next(time)) << "at " << time;
    rounds.hearing(time);
  }
  EXPECT_FALSE(rounds.next(31.0));
  EXPECT_TRUE(rounds.next(31.6)) << "no piece came any more";
}

}  // namespace
}  // namespace thinwire::hub
