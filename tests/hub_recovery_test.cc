// A hub that knows nothing of the rounds before it, sites that come back, and the bounds of memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/hub_fixture.h"

namespace thinwire::hub {
namespace {

// A hello to a hub that was started again in mid-run.
Hello returning(const std::string& site, std::uint64_t next_round, std::vector<Slot> ahead = {}) {
  Hello hello = hello_of(site);
  hello.number = static_cast<std::uint32_t>(site[0] - 'a');
  hello.next_round = next_round;
  hello.ahead = std::move(ahead);
  hello.epoch = 4;
  return hello;
}

Bundle bundle_of(std::uint64_t number, const std::string& word = "0") {
  return {{{4, number, 0}, Kind::gather, 0}, {{0, text("a" + word)}, {1, text("b" + word)}}, {}};
}

// a and b of three, after waiting for the third.
void go_on_with_two(Hub& hub) {
  for (const double time : {0.0, 5.0, 10.5}) {
    hub.wait_until(time);
    for (const std::string site : {"a", "b"}) hub.say(site, returning(site, 5));
  }
  for (const std::string site : {"a", "b"}) hub.say(site, Ping{5});
}

TEST(HubRecovery, FetchesWhatSomeHaveAndOthersLack) {
  Hub hub;
  hub.say("a", returning("a", 5));
  EXPECT_FALSE(hub.to<Welcome>("a"));
  hub.say("b", returning("b", 4));
  EXPECT_EQ(hub.to<Welcome>("b")->next_round, 5u);
  EXPECT_EQ(hub.to<Welcome>("b")->epoch, 5u);
  hub.say("b", Post{slot(4), text("b0")});
  ASSERT_TRUE(hub.to<Missing>("a"));
  EXPECT_EQ(hub.to<Missing>("a")->slot, slot(4));
  hub.wait_until(5);
  EXPECT_FALSE(hub.to<Closed>("b")) << "a has the result";
  hub.say("a", bundle_of(4));
  ASSERT_TRUE(hub.to<Closed>("b"));
  // Whether the frame under its number is its own, b knows better than this hub.
  EXPECT_FALSE(hub.to<Closed>("b")->included);
  EXPECT_EQ(hub.to<Closed>("b")->slot.round.epoch, 4u);
  ASSERT_EQ(hub.to<Closed>("b")->frames.size(), 2u);
  EXPECT_EQ(hub.to<Closed>("b")->frames[0].bytes, text("a0"));
  EXPECT_EQ(hub.to<Closed>("b")->frames[1].bytes, text("b0"));
  EXPECT_FALSE(hub.to<Closed>("a"));
  EXPECT_EQ(hub.status()["rounds_closed"], 0);
}

TEST(HubRecovery, FetchesRoundsAheadOfTheFirstOneThatIsLacking) {
  Hub hub;
  hub.say("a", returning("a", 4, {slot(5)}));
  hub.say("b", returning("b", 4));
  EXPECT_EQ(hub.to<Missing>("a")->slot, slot(5));
  for (const std::string peer : {"a", "b"}) hub.say(peer, Post{slot(4), text(peer)});
  EXPECT_TRUE(hub.to<Closed>("a")) << "round 4 is anybody's";
  hub.say("b", Post{slot(5), text("other")});
  EXPECT_FALSE(hub.to<Closed>("b"));
  hub.say("a", bundle_of(5));
  EXPECT_EQ(hub.to<Closed>("b")->frames.at(0).bytes, text("a0"));
}

TEST(HubRecovery, AsksTheNextOneAndDecidesAnewWhenNobodyIsLeft) {
  Hub hub({.run = "run", .sites = 3, .round_deadline_s = 20});
  hub.say("a", returning("a", 5));
  hub.say("b", returning("b", 5));
  hub.say("c", returning("c", 4));
  hub.say("c", Want{slot(4)});
  ASSERT_TRUE(hub.to<Missing>("a"));
  hub.wait_until(1.5);
  EXPECT_TRUE(hub.to<Missing>("b"));
  hub.say("a", Bye{});
  hub.say("b", Bye{});
  hub.say("c", Post{slot(4), text("c0")});
  ASSERT_TRUE(hub.to<Closed>("c"));
  EXPECT_EQ(hub.to<Closed>("c")->absent, (std::vector<std::uint32_t>{0, 1}));
  // It has another result of the round: it takes over the state of those who went on.
  hub.say("a", returning("a", 5));
  ASSERT_TRUE(hub.to<Welcome>("a"));
  EXPECT_EQ(hub.to<Welcome>("a")->takeover, hub.to<Snapshot>("c")->step);
}

TEST(HubRecovery, RefusesBundlesThatSayTooLittleOrAnotherThing) {
  Hub hub({.run = "run", .sites = 3});
  hub.say("a", returning("a", 5));
  hub.say("b", returning("b", 5));
  hub.say("c", returning("c", 4));
  hub.say("c", Want{slot(4)});
  hub.say("a", bundle_of(4));  // says nothing of c
  hub.say("a", Bundle{slot(4, Kind::reduce), {}, {0, 1}});
  hub.say("a", Bundle{slot(4, Kind::gather, 1), {}, {0, 1, 2}});
  hub.say("a", Bundle{slot(4), {{0, {}}, {1, {}}, {2, {}}, {3, {}}}, {}});
  hub.say("c", Bundle{slot(4), {}, {0, 1, 2}});
  EXPECT_EQ(hub.refused("bundle"), 5u);
  EXPECT_FALSE(hub.to<Closed>("c"));
  Bundle good = bundle_of(4);
  good.absent = {2};
  hub.say("a", good);
  EXPECT_FALSE(hub.to<Closed>("c")->included);
  good.frames[0].bytes = text("forged");
  hub.say("b", good);
  ASSERT_TRUE(hub.to<Welcome>("b"));
  EXPECT_NE(hub.to<Welcome>("b")->takeover, kNoStep);
  EXPECT_EQ(hub.refused("outdated"), 1u);
}

TEST(HubRecovery, GoesOnWithThoseThatAreThereAfterThePeerTimeout) {
  Hub hub({.run = "run", .sites = 3});
  hub.say("c", returning("c", 4));
  for (double time = 1; time < 10; time += 1) {
    hub.wait_until(time);
    hub.say("c", returning("c", 4));
    hub.say("a", returning("a", 4));
    EXPECT_FALSE(hub.to<Welcome>("c"));
  }
  hub.wait_until(10.5);
  ASSERT_TRUE(hub.to<Welcome>("c"));
  EXPECT_EQ(hub.to<Welcome>("c")->site, 2u);
  hub.say("b", returning("b", 4));
  ASSERT_TRUE(hub.to<Welcome>("b"));
  EXPECT_EQ(hub.to<Welcome>("b")->site, 1u);
}

TEST(HubRecovery, SiteThatLostItsStateTakesItOverFromAnotherOne) {
  Hub hub;
  hub.say("a", returning("a", 5));
  hub.say("b", hello_of("b"));
  ASSERT_TRUE(hub.to<Welcome>("b"));
  const std::uint64_t step = hub.to<Welcome>("b")->takeover;
  ASSERT_GE(step, 5u);
  ASSERT_TRUE(hub.to<Snapshot>("a"));
  EXPECT_EQ(hub.to<Snapshot>("a")->step, step);
  // Rounds do not wait for it, and what it says of them does not count.
  hub.say("b", Post{slot(5), text("useless")});
  hub.say("a", Post{slot(5), text("a0")});
  ASSERT_TRUE(hub.to<Closed>("a"));
  EXPECT_EQ(hub.to<Closed>("a")->absent, (std::vector<std::uint32_t>{1}));
  hub.say("b", Fetch{step, 0, 3});
  ASSERT_TRUE(hub.to<Fetch>("a"));
  EXPECT_EQ(hub.to<Fetch>("a")->site, 1u);
  hub.say("b", Fetch{step + 1, 0, 3});
  EXPECT_FALSE(hub.to<Fetch>("a")) << "another step";
  Chunk chunk{.step = step, .site = 1, .state_bytes = 4, .bytes = text("abcd")};
  hub.say("a", chunk);
  ASSERT_TRUE(hub.to<Chunk>("b"));
  EXPECT_EQ(hub.to<Chunk>("b")->bytes, text("abcd"));
  chunk.step = step + 1;
  hub.say("a", chunk);
  EXPECT_FALSE(hub.to<Chunk>("b")) << "of another step";
  hub.say("b", Ping{0, step});
  EXPECT_TRUE(hub.to<Pong>("b")->awaited);
  // A round that an earlier process under its name took part in: b gets that frame too.
  hub.say("b", Want{slot(4)});
  hub.say("a", bundle_of(4));
  ASSERT_TRUE(hub.to<Closed>("b"));
  EXPECT_FALSE(hub.to<Closed>("b")->included);
  EXPECT_EQ(hub.to<Closed>("b")->frames.size(), 2u);
}

TEST(HubRecovery, DonorWithoutTheStateIsReplacedAndTheStepMovesOn) {
  Hub hub({.run = "run", .sites = 4});
  for (const std::string site : {"a", "b", "c"}) hub.say(site, returning(site, 5));
  hub.say("d", hello_of("d"));
  const std::uint64_t step = hub.to<Welcome>("d")->takeover;
  std::vector<std::string> donors;
  for (const std::string site : {"a", "b", "c"}) {
    if (hub.to<Snapshot>(site)) donors.push_back(site);
  }
  ASSERT_EQ(donors.size(), 2u);
  hub.say(donors[0], NoState{step});
  for (int i = 0; i < 3; ++i) {
    hub.say("d", Fetch{step, 0, 0});
    EXPECT_TRUE(hub.to<Fetch>(donors[1])) << "the other one is asked";
  }
  hub.say(donors[1], NoState{step});
  ASSERT_TRUE(hub.to<Welcome>("d"));
  EXPECT_GT(hub.to<Welcome>("d")->takeover, step);
  // Nobody is left who could give it: it may ask again.
  for (const std::string site : {"a", "b", "c"}) hub.say(site, Bye{});
  hub.say("d", Fetch{step, 0, 0});
  hub.say("d", Ping{});
  EXPECT_TRUE(hub.to<Pong>("d"));
}

// 2 of 4 would be enough for both sides of a divided run.
TEST(HubRecovery, SitesWithSeveralHubsNeedMoreThanHalf) {
  Hello several = hello_of("a");
  several.hubs = 2;
  Hub half({.run = "run", .sites = 4, .min_sites = 2});
  half.say("a", several);
  ASSERT_TRUE(half.to<Refused>("a"));
  EXPECT_NE(half.to<Refused>("a")->why.find("--min-sites"), std::string::npos);
  Hub more({.run = "run", .sites = 4, .min_sites = 3});
  more.say("a", several);
  EXPECT_FALSE(more.to<Refused>("a"));
}

// A hub that hears of its sites only late, as when two of three speak to another one by now, closes
// nothing: their promise to it has ended.
TEST(HubRecovery, ARoundNeedsPromisesThatStillHold) {
  Hub hub({.run = "run", .sites = 3, .min_sites = 2, .peer_timeout_s = 10});
  for (const std::string site : {"a", "b", "c"}) {
    Hello hello = hello_of(site);
    hello.hubs = 2;
    hub.say(site, hello);
  }
  for (const std::string site : {"a", "b", "c"}) hub.say(site, Ping{});
  const std::uint64_t old = hub.to<Pong>("c")->token;
  for (double time = 2; time <= 12; time += 2) {
    hub.wait_until(time);
    for (const std::string site : {"a", "b", "c"}) {
      hub.say(site, Ping{0, kNoStep, old});  // on its way for long
    }
  }
  for (const std::string site : {"a", "b", "c"}) hub.say(site, Post{slot(0), text(site)});
  EXPECT_FALSE(hub.to<Closed>("a"));
  hub.say("a", Ping{});
  const std::uint64_t now = hub.to<Pong>("a")->token;
  hub.say("a", Ping{0, kNoStep, now});
  EXPECT_FALSE(hub.to<Closed>("a")) << "one of two";
  hub.say("b", Ping{0, kNoStep, now});
  EXPECT_TRUE(hub.to<Closed>("a"));
}

TEST(HubRecovery, ClaimedNumbersMustBeOfTheRun) {
  Hub hub;
  hub.say("a", returning("a", 4));
  hub.say("c", returning("c", 4));
  EXPECT_NE(hub.to<Refused>("c")->why.find("2 places"), std::string::npos);
  // Another one has the number: the site gets a place that is free, and the run's state with it.
  Hello twin = returning("b", 4);
  twin.number = 0;
  hub.say("b", twin);
  ASSERT_TRUE(hub.to<Welcome>("b"));
  EXPECT_EQ(hub.to<Welcome>("b")->site, 1u);
  EXPECT_NE(hub.to<Welcome>("b")->takeover, kNoStep);
}

// One alone heard the end of a round that the others decided anew under another hub.
TEST(HubRecovery, SitesWithOtherResultsFollowTheMost) {
  Hub hub({.run = "run", .sites = 3});
  for (const std::string site : {"a", "b", "c"}) {
    Hello hello = returning(site, 5);
    hello.recent = {{slot(3), 1}, {slot(4), site == "a" ? 7u : 8u}};
    hub.say(site, hello);
  }
  EXPECT_NE(hub.to<Welcome>("a")->takeover, kNoStep);
  EXPECT_EQ(hub.to<Welcome>("b")->takeover, kNoStep);
  EXPECT_EQ(hub.to<Welcome>("c")->takeover, kNoStep);
}

// Its Welcome was lost, and it was away for so long that it is no longer in the run.
TEST(HubRecovery, ASiteWithOtherResultsIsToldSoUntilItHasHeardIt) {
  Hub hub({.run = "run", .sites = 3});
  const auto hello = [](const std::string& site) {
    Hello words = returning(site, 5);
    words.recent = {{slot(3), 1}, {slot(4), site == "a" ? 7u : 8u}};
    return words;
  };
  for (const std::string site : {"a", "b", "c"}) hub.say(site, hello(site));
  const std::uint64_t step = hub.to<Welcome>("a")->takeover;
  for (double time = 2; time <= 30; time += 2) {
    hub.wait_until(time);
    for (const std::string site : {"b", "c"}) hub.say(site, Ping{5});
  }
  EXPECT_FALSE(hub.status()["sites"][0]["active"]);
  hub.say("a", hello("a"));
  ASSERT_TRUE(hub.to<Welcome>("a"));
  EXPECT_EQ(hub.to<Welcome>("a")->takeover, step);
  // As long as nobody is there who could give it, it is not let in at all.
  for (const std::string site : {"b", "c"}) hub.say(site, Bye{});
  hub.say("a", Fetch{step, 0, 0});
  EXPECT_TRUE(hub.to<Refused>("a"));
  hub.say("a", hello("a"));
  EXPECT_TRUE(hub.to<Refused>("a"));
  EXPECT_FALSE(hub.to<Welcome>("a"));
  hub.say("b", hello("b"));
  EXPECT_EQ(hub.to<Welcome>("b")->takeover, kNoStep);
  hub.say("a", hello("a"));
  ASSERT_TRUE(hub.to<Welcome>("a"));
  EXPECT_NE(hub.to<Welcome>("a")->takeover, kNoStep);
}

// Of a round in flight that its useless replica took part in it has no frame of its own any more.
TEST(HubRecovery, WhoTakesTheStateOverGetsItsOldFramesToo) {
  Hub hub;
  begin(hub, 2);
  for (const std::string site : {"a", "b"}) hub.say(site, Post{slot(0), text(site)});
  EXPECT_TRUE(hub.to<Closed>("b")->included);
  Hello hello = hello_of("b");
  hello.number = 1;
  hello.taking = kAnyStep;
  hub.say("b", hello);
  const std::uint64_t step = hub.to<Welcome>("b")->takeover;
  hub.say("b", Ping{0, step});
  hub.say("b", Want{slot(0)});
  ASSERT_TRUE(hub.to<Closed>("b"));
  EXPECT_FALSE(hub.to<Closed>("b")->included);
  EXPECT_EQ(hub.to<Closed>("b")->frames.size(), 2u);
}

// The step whose state is to be taken over lies ahead, and the run cannot come to it without the
// site that waits for it.
TEST(HubRecovery, ATakeoverOfAStepThatTheRunNeverReachesBeginsAnew) {
  Hub hub({.run = "run", .sites = 3, .min_sites = 2});
  go_on_with_two(hub);
  hub.say("c", hello_of("c"));
  const std::uint64_t ahead = hub.to<Welcome>("c")->takeover;
  EXPECT_GT(ahead, 5u);
  hub.say("b", Bye{});
  hub.say("c", Fetch{ahead, 0, 0});
  ASSERT_TRUE(hub.to<Welcome>("c"));
  EXPECT_EQ(hub.to<Welcome>("c")->takeover, 5u);
  ASSERT_TRUE(hub.to<Snapshot>("a"));
  EXPECT_EQ(hub.to<Snapshot>("a")->step, 5u);
}

// Ranks that are processes speak through one of them, which has its own part alone.
TEST(HubRecovery, WhoGivesNoStateIsNotAskedForIt) {
  Hub hub({.run = "run", .sites = 3});
  Hello processes = returning("a", 90);
  processes.gives = false;
  hub.say("a", processes);
  hub.say("b", returning("b", 90));
  Hello lost = returning("c", 0);
  lost.taking = kAnyStep;
  hub.say("c", lost);
  ASSERT_TRUE(hub.to<Snapshot>("b"));
  EXPECT_FALSE(hub.to<Snapshot>("a"));
  hub.say("b", Bye{});
  const Welcome* welcome = hub.to<Welcome>("c");
  EXPECT_TRUE(welcome == nullptr || welcome->takeover == kNoStep);
}

// Sites keep their last results alone; one that took the state over has none of before.
TEST(HubRecovery, ARoundWhoseResultNobodyHasKeptIsMadeUpForByTheState) {
  Hub hub({.run = "run", .sites = 3});
  for (const std::string site : {"a", "b"}) hub.say(site, returning(site, 90));
  hub.say("c", returning("c", 40));
  EXPECT_EQ(hub.to<Welcome>("c")->takeover, kNoStep) << "within the last 64";
  hub.say("c", Want{slot(40)});
  ASSERT_TRUE(hub.to<Missing>("a"));
  hub.say("a", Want{slot(40)});
  ASSERT_TRUE(hub.to<Missing>("b"));
  hub.say("b", Want{slot(40)});
  ASSERT_TRUE(hub.to<Welcome>("c")) << "at once: who has the state may soon be done";
  EXPECT_NE(hub.to<Welcome>("c")->takeover, kNoStep);
  for (const std::string site : {"a", "b"}) hub.say(site, Post{slot(90), text(site)});
  EXPECT_TRUE(hub.to<Closed>("a")) << "the run goes on";
}

// Two rounds are missed by one site; the word that the second is not kept comes when the first has
// made the hub forget both. The site that has them behind it must not be sent for the state.
TEST(HubRecovery, WhoKeepsNoOldResultsIsNotTakenForOneThatLacksThem) {
  Hub hub({.run = "run", .sites = 3});
  hub.say("a", returning("a", 90));
  hub.say("b", returning("b", 90));
  hub.say("c", returning("c", 40));
  hub.say("c", Want{slot(41)});
  hub.say("c", Want{slot(40)});
  ASSERT_TRUE(hub.to<Missing>("a"));
  hub.say("a", Want{slot(41)});
  hub.say("b", Want{slot(41)});
  ASSERT_TRUE(hub.to<Welcome>("c"));
  EXPECT_NE(hub.to<Welcome>("c")->takeover, kNoStep);
  hub.say("a", Want{slot(40)});
  EXPECT_FALSE(hub.to<Welcome>("a"));
  EXPECT_EQ(hub.refused("outdated"), 1u) << "c alone";
}

TEST(HubRecovery, AnAbsurdStepOfOneSiteKeepsNobodyOut) {
  Hub hub({.run = "run", .sites = 3});
  go_on_with_two(hub);
  for (const std::uint64_t step : {kNoStep, kNoStep - 2, std::uint64_t{1} << 40}) {
    hub.say("b", Ping{step});
    Hello hello = hello_of("c");
    hello.process = step;
    hub.core.gone(hub.now, "c");
    hub.say("c", hello);
    ASSERT_TRUE(hub.to<Welcome>("c"));
    EXPECT_LT(hub.to<Welcome>("c")->takeover, 50u);
  }
}

// What a site said of a round that was still to come does not count against others.
TEST(HubRecovery, ForgedHashesOfRoundsToComeMeanNothing) {
  Hub hub({.run = "run", .sites = 3});
  Hello forged = returning("a", 5);
  forged.recent = {{slot(5), 77}};
  hub.say("a", forged);
  go_on_with_two(hub);
  for (const std::string site : {"a", "b"}) hub.say(site, Post{slot(5), text(site)});
  ASSERT_TRUE(hub.to<Closed>("b"));
  Hello late = returning("c", 6);
  const std::vector<SharedFrame> frames{{0, text("a")}, {1, text("b")}};
  late.recent = {{slot(5), fold_result(0, frames, {2})}};
  hub.say("c", late);
  ASSERT_TRUE(hub.to<Welcome>("c"));
  EXPECT_EQ(hub.to<Welcome>("c")->takeover, kNoStep);
}

// A hello is no promise: it may have been on its way for long.
TEST(HubRecovery, ASiteOfSeveralHubsCountsFromItsPromiseOn) {
  Hub hub({.run = "run", .sites = 3, .min_sites = 2, .peer_timeout_s = 10});
  const auto hello = [](const std::string& site) {
    Hello words = hello_of(site);
    words.hubs = 2;
    return words;
  };
  for (const std::string site : {"a", "b", "c"}) hub.say(site, hello(site));
  hub.say("a", Ping{});
  const std::uint64_t token = hub.to<Pong>("a")->token;
  ASSERT_TRUE(hub.to<Refused>("a")) << "it may look for the others elsewhere";
  EXPECT_FALSE(hub.to<Refused>("a")->final);
  hub.say("a", Ping{0, kNoStep, token});
  for (const std::string site : {"a", "b", "c"}) hub.say(site, Post{slot(0), text(site)});
  hub.say("b", Bye{});
  hub.say("b", hello("b"));
  EXPECT_FALSE(hub.to<Closed>("a"));
  // A process that knows of one hub alone makes room for one that knows two.
  hub.say("b", Ping{0, kNoStep, token});
  ASSERT_TRUE(hub.to<Closed>("a"));
  EXPECT_FALSE(hub.to<Refused>("b"));
}

// Too few sites are left at a hub; one comes back from another one, where the run went on.
TEST(HubRecovery, AHubThatTheRunHasLeftBeginsAnew) {
  Hub hub({.run = "run", .sites = 3, .min_sites = 2, .peer_timeout_s = 10});
  const auto hello = [](const std::string& site, std::uint64_t next_round) {
    Hello words = returning(site, next_round);
    words.hubs = 2;
    if (next_round > 0) words.recent = {{slot(next_round - 1), 9}};
    return words;
  };
  for (const std::string site : {"a", "b", "c"}) hub.say(site, hello(site, 5));
  const std::uint64_t id = hub.to<Welcome>("a")->hub;
  hub.wait_until(40);
  hub.say("a", hello("a", 5));
  ASSERT_TRUE(hub.to<Welcome>("a"));
  EXPECT_EQ(hub.to<Welcome>("a")->next_round, 5u) << "no news";
  hub.say("b", hello("b", 300));
  ASSERT_TRUE(hub.to<Pong>("a"));
  EXPECT_FALSE(hub.to<Pong>("a")->active);
  EXPECT_FALSE(hub.to<Welcome>("b"));
  hub.say("c", hello("c", 301));
  hub.say("a", hello("a", 5));
  ASSERT_TRUE(hub.to<Welcome>("b"));
  EXPECT_EQ(hub.to<Welcome>("b")->next_round, 301u);
  EXPECT_NE(hub.to<Welcome>("b")->hub, id) << "parts of rounds from before do not count";
  ASSERT_TRUE(hub.to<Welcome>("a"));
  EXPECT_NE(hub.to<Welcome>("a")->takeover, kNoStep) << "too far behind";
}

TEST(HubRecovery, SilentSiteLeavesAndItsProcessReturnsInANewEpoch) {
  Hub hub;
  begin(hub, 2);
  hub.say("b", Post{slot(0), text("b0")});
  for (double time = 2; time <= 12; time += 2) {
    hub.wait_until(time);
    hub.say("b", Ping{1});
  }
  EXPECT_EQ(hub.status()["epoch"], 2);
  EXPECT_EQ(hub.to<Pong>("b")->epoch, 2u);
  hub.say("a", Post{slot(1), text("stale")});
  EXPECT_FALSE(hub.to<Pong>("a")->active);
  EXPECT_EQ(hub.refused("inactive"), 1u);
  hub.say("a2", hello_of("a"));
  EXPECT_EQ(hub.to<Welcome>("a2")->epoch, 3u);
  EXPECT_EQ(hub.to<Welcome>("a2")->next_round, 1u);
  hub.say("a2", Post{slot(0), text("late")});
  EXPECT_FALSE(hub.to<Closed>("a2")->included);
  hub.say("a", Ping{});
  EXPECT_FALSE(hub.to<Pong>("a")->active) << "its old connection is a stranger's";
}

TEST(HubRecovery, HubThatStoodStillDoesNotBlameTheSites) {
  Hub hub;
  begin(hub, 2);
  hub.say("a", Post{slot(0), text("a0")});
  hub.now = 300;
  hub.heard = hub.core.tick(hub.now);
  EXPECT_TRUE(hub.heard.empty());
  EXPECT_EQ(hub.status()["epoch"], 1);
  hub.say("b", Post{slot(0), text("b0")});
  EXPECT_TRUE(hub.to<Closed>("b")->included);
}

TEST(HubRecovery, HoldsNoMoreThanItsBytes) {
  Hub hub({.run = "run", .bytes_max = 10'000});
  begin(hub, 2);
  const Bytes frame(1'000);
  for (std::uint64_t number = 0; number < 20; ++number) {
    hub.say("a", Post{slot(number), frame});
    hub.say("b", Post{slot(number), frame});
    ASSERT_TRUE(hub.to<Closed>("b")) << "old rounds make room, " << number;
  }
  hub.say("b", Want{slot(19)});
  EXPECT_TRUE(hub.to<Closed>("b"));
  for (std::uint64_t number = 20; number < 32; ++number) hub.say("a", Post{slot(number), frame});
  EXPECT_EQ(hub.refused("memory"), 7u) << "rounds ahead may take half";
  hub.say("b", Post{slot(20), frame});
  EXPECT_TRUE(hub.to<Closed>("b")->included);
  hub.say("a", Post{slot(25), Bytes(20'000)});
  EXPECT_FALSE(hub.to<Taken>("a"));
  hub.say("b", Want{slot(2)});
  ASSERT_TRUE(hub.to<Welcome>("b")) << "too far behind";
  EXPECT_NE(hub.to<Welcome>("b")->takeover, kNoStep);
}

TEST(HubRecovery, StatusAndMetricsShowTheRun) {
  Hub hub({.run = "quoted \"run\"", .hub = 9, .sites = 2});
  hub.say("p\x01", Hello{.run = "quoted \"run\"", .site = "a"});
  hub.say("q", Hello{.run = "quoted \"run\"", .site = "b", .process = 5});
  hub.say("q", Post{slot(0), text("b0")});
  hub.say("p\x01", Post{slot(0), text("a0")});
  hub.say("q", Ping{1});
  hub.say("x", Bye{});
  hub.core.refuse("not \"decodable\"\n");
  hub.wait_until(2.5);
  const nlohmann::json status = hub.status();
  EXPECT_EQ(status["run"], "quoted \"run\"");
  EXPECT_EQ(status["hub"], 9);
  EXPECT_EQ(status["epoch"], 1);
  EXPECT_EQ(status["begun"], true);
  EXPECT_EQ(status["first_open_round"], 1);
  EXPECT_EQ(status["rounds_closed"], 1);
  EXPECT_EQ(status["closed_by_deadline"], 0);
  EXPECT_EQ(status["refused"]["unknown peer"], 1);
  EXPECT_EQ(status["refused"]["not \"decodable\"\n"], 1);
  ASSERT_EQ(status["sites"].size(), 2u);
  const nlohmann::json& a = status["sites"][0];
  EXPECT_EQ(a["name"], "a");
  EXPECT_EQ(a["number"], 0);
  EXPECT_EQ(a["active"], true);
  EXPECT_EQ(a["step"], 0);
  EXPECT_EQ(a["lag"], 1);
  EXPECT_EQ(a["left_out"], 0);
  EXPECT_EQ(a["address"], "0x7001");
  EXPECT_NEAR(a["last_seen_s"].get<double>(), 2.5, 1e-9);
  const std::size_t up = encoded_size(Hello{.run = "quoted \"run\"", .site = "a"}) +
                         encoded_size(Post{slot(0), text("a0")});
  EXPECT_EQ(a["bytes_up"], up);
  EXPECT_GT(a["bytes_down"].get<int>(), 0);
  const std::string metrics = hub.core.metrics_text(hub.now);
  for (const std::string line :
       {"thinwire_hub_rounds_closed_total 1", "thinwire_hub_rounds_by_deadline_total 0",
        "thinwire_hub_epoch 1", "thinwire_hub_sites_active 2",
        "thinwire_hub_refused_total{reason=\"unknown peer\"} 1",
        "thinwire_hub_refused_total{reason=\"not ?decodable??\"} 1",
        "thinwire_hub_site_lag_rounds{site=\"a\"} 1",
        "thinwire_hub_site_lag_rounds{site=\"b\"} 0"}) {
    EXPECT_NE(metrics.find("\n" + line + "\n"), std::string::npos) << line << "\n" << metrics;
  }
  EXPECT_NE(metrics.find("thinwire_hub_site_bytes_total{site=\"a\",direction=\"up\"} " +
                         std::to_string(up) + "\n"),
            std::string::npos);
}

}  // namespace
}  // namespace thinwire::hub
