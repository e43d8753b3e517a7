// The hub's judgement, message by message.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/hub_fixture.h"

namespace thinwire::hub {
namespace {

TEST(HubCore, BeginsWhenAllSitesAreThere) {
  Hub hub({.run = "run", .sites = 3});
  hub.say("c", hello_of("c"));
  hub.say("a", hello_of("a"));
  EXPECT_FALSE(hub.to<Welcome>("a"));
  EXPECT_FALSE(hub.status()["begun"].get<bool>());
  hub.say("b", hello_of("b"));
  for (const std::string peer : {"a", "b", "c"}) {
    ASSERT_TRUE(hub.to<Welcome>(peer));
    EXPECT_EQ(hub.to<Welcome>(peer)->site, static_cast<std::uint32_t>(peer[0] - 'a'));
    EXPECT_EQ(hub.to<Welcome>(peer)->sites, 3u);
    EXPECT_EQ(hub.to<Welcome>(peer)->epoch, 1u);
    EXPECT_EQ(hub.to<Welcome>(peer)->next_round, 0u);
  }
  hub.say("d", hello_of("d"));
  EXPECT_NE(hub.to<Refused>("d")->why.find("taken, by a, b, c"), std::string::npos);
}

TEST(HubCore, ForgetsWhoLeavesBeforeTheRunBegins) {
  Hub hub;
  Hello wrong = hello_of("a");
  wrong.agreement = 8;
  hub.say("a", wrong);
  hub.wait_until(11);
  EXPECT_TRUE(hub.status()["sites"].empty());
  Hello next = hello_of("a");
  next.process = 99;
  hub.say("a2", next);
  hub.say("b", hello_of("b"));
  EXPECT_TRUE(hub.to<Welcome>("a2"));
}

TEST(HubCore, RefusalsNameTheDifferenceOnBothSides) {
  Hub hub;
  hub.say("a", hello_of("a"));
  Hello other = hello_of("b");
  other.run = "walk";
  hub.say("b", other);
  EXPECT_TRUE(hub.to<Refused>("b")->final);
  EXPECT_EQ(hub.to<Refused>("b")->why,
            "the run ids differ: the hub serves \"run\", site b asks for \"walk\"");
  other = hello_of("b");
  other.parts = 4;
  hub.say("b", other);
  EXPECT_EQ(hub.to<Refused>("b")->why, "the ranks of a site differ: 1 in this run, 4 at site b");
  other = hello_of("b");
  other.agreement = 8;
  other.agreed = "lr = 0.1\nmodel = toy\n";
  hub.say("b", other);
  EXPECT_EQ(hub.to<Refused>("b")->why,
            "the settings differ: the run has \"model = gpt\", site b has \"model = toy\"");
  other.agreed = "lr = 0.1\n";
  hub.say("b", other);
  EXPECT_NE(hub.to<Refused>("b")->why.find("nothing more"), std::string::npos);
  other.agreed = hello_of("b").agreed;
  hub.say("b", other);
  EXPECT_NE(hub.to<Refused>("b")->why.find("0000000000000007"), std::string::npos);
  EXPECT_NE(hub.to<Refused>("b")->why.find("0000000000000008"), std::string::npos);
  EXPECT_EQ(hub.refused("run"), 1u);
  EXPECT_EQ(hub.refused("parts"), 1u);
  EXPECT_EQ(hub.refused("agreement"), 3u);
  std::string log;
  for (const std::string& line : hub.core.take_log()) log += line + "\n";
  EXPECT_NE(log.find("site b at b: the settings differ"), std::string::npos) << log;
  hub.say("b", hello_of("b"));
  EXPECT_TRUE(hub.to<Welcome>("b")) << "refusals leave no trace";
}

TEST(HubCore, NameBelongsToTheKeyThatUsedItFirst) {
  Hub hub;
  hub.say("a", hello_of("a"), "KEY1");
  hub.say("a2", hello_of("a"), "KEY2");
  EXPECT_NE(hub.to<Refused>("a2")->why.find("another key"), std::string::npos);
  hub.say("a3", hello_of("a"), "KEY1");
  hub.say("b", hello_of("b"), "KEY2");
  EXPECT_TRUE(hub.to<Welcome>("a3"));
}

TEST(HubCore, StrangersMayOnlySayHelloAndAskForTheStatus) {
  Hub hub;
  begin(hub, 2);
  hub.say("x", Post{slot(0), text("evil")});
  EXPECT_TRUE(hub.heard.empty());
  hub.say("x", Want{slot(0)});
  EXPECT_TRUE(hub.heard.empty());
  EXPECT_EQ(hub.refused("unknown peer"), 2u);
  hub.say("x", Ping{});
  EXPECT_FALSE(hub.to<Pong>("x")->active);
  hub.say("x", AskStatus{});
  EXPECT_EQ(nlohmann::json::parse(hub.to<Status>("x")->json)["run"], "run");
  hub.say("a", Welcome{.sites = 1});
  EXPECT_EQ(hub.refused("direction"), 1u);
}

TEST(HubCore, ClosesOnceForAllAndAnswersLateAndRepeatedPosts) {
  Hub hub;
  begin(hub, 2);
  hub.say("a", Post{slot(0), text("from a")});
  EXPECT_TRUE(hub.to<Taken>("a"));
  hub.say("a", Post{slot(0), text("from a")});
  EXPECT_TRUE(hub.to<Taken>("a"));
  EXPECT_EQ(hub.refused("repeated"), 0u);
  hub.say("a", Post{slot(0), text("another")});
  EXPECT_TRUE(hub.to<Taken>("a"));
  EXPECT_EQ(hub.refused("repeated"), 1u);
  hub.say("b", Post{slot(0), text("from b")});
  for (int again = 0; again < 2; ++again) {
    const Closed* closed = hub.to<Closed>("b");
    ASSERT_TRUE(closed);
    EXPECT_TRUE(closed->included);
    ASSERT_EQ(closed->frames.size(), 1u);
    EXPECT_EQ(closed->frames[0].bytes, text("from a"));
    EXPECT_EQ(closed->slot.round.epoch, 1u);
    hub.say("b", Post{slot(0), text("from b")});
  }
  hub.say("a", Want{slot(0)});
  EXPECT_EQ(hub.to<Closed>("a")->frames.at(0).bytes, text("from b"));
  EXPECT_EQ(hub.refused("late"), 0u);
}

TEST(HubCore, DeadlineFollowsTheMedianWithinItsBounds) {
  Hub hub({.run = "run", .round_deadline_s = 60, .patience = 4, .shortest_s = 1});
  begin(hub, 2);
  const auto round = [&](std::uint64_t number, double spread) {
    hub.say("a", Post{slot(number), {}});
    hub.wait_until(hub.now + spread);
    hub.say("b", Post{slot(number), {}});
  };
  const auto alone = [&](std::uint64_t number) {
    hub.say("a", Post{slot(number), {}});
    const double from = hub.now;
    while (!hub.to<Closed>("a") && hub.now < from + 100) {
      const double next = hub.now + 0.25;
      hub.wait_until(next);
      if (!hub.to<Closed>("a")) hub.say("b", Ping{});
    }
    EXPECT_EQ(hub.to<Closed>("a")->absent, (std::vector<std::uint32_t>{1}));
    EXPECT_FALSE(hub.to<Closed>("b")->included);
    return hub.now - from;
  };
  hub.wait_until(0.5);
  for (std::uint64_t number = 0; number < 5; ++number) round(number, 0.01);
  EXPECT_NEAR(alone(5), 1.0, 0.26);
  for (std::uint64_t number = 6; number < 40; ++number) round(number, 0.75);
  EXPECT_NEAR(alone(40), 3.0, 0.26);
  hub.say("b", Post{slot(40), text("late")});
  EXPECT_FALSE(hub.to<Closed>("b")->included);
  EXPECT_EQ(hub.refused("late"), 1u);
  EXPECT_EQ(hub.status()["closed_by_deadline"], 2);
}

// Half an hour of work lies between two rounds, and sites do not do it equally fast.
TEST(HubCore, WaitsForASiteThatWorksHalfAsLongAgain) {
  Hub hub({.run = "run", .peer_timeout_s = 1e9, .round_deadline_s = 2000});
  begin(hub, 2);
  const auto round = [&](std::uint64_t number, double spread) {
    hub.wait_until(hub.now + 1000.0);
    hub.say("a", Post{slot(number), {}});
    hub.wait_until(hub.now + spread);
    hub.say("b", Post{slot(number), {}});
    return hub.to<Closed>("b")->included;
  };
  for (std::uint64_t number = 0; number < 4; ++number) EXPECT_TRUE(round(number, 0.1));
  EXPECT_TRUE(round(4, 480.0));
  EXPECT_TRUE(round(5, 0.1));
  EXPECT_FALSE(round(6, 520.0));
}

TEST(HubCore, TakesASiteWithAllItsPartsOrNone) {
  Hub hub({.run = "run", .round_deadline_s = 5});
  for (const std::string name : {"a", "b"}) {
    Hello hello = hello_of(name);
    hello.parts = 2;
    hub.say(name, hello);
  }
  hub.say("a", Post{slot(0, Kind::gather, 0), text("a0")});
  hub.say("a", Post{slot(0, Kind::gather, 1), text("a1")});
  hub.say("b", Post{slot(0, Kind::gather, 0), text("b0")});
  hub.say("b", Post{slot(0, Kind::gather, 2), text("b2")});
  EXPECT_EQ(hub.refused("part"), 1u);
  hub.wait_until(5.5);
  ASSERT_TRUE(hub.to<Closed>("b"));
  EXPECT_EQ(hub.to<Closed>("b")->absent, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(hub.to<Closed>("b")->frames.at(0).bytes, text("a1"));
  EXPECT_TRUE(hub.to<Closed>("a")->frames.empty());
}

TEST(HubCore, ClosesRoundsInOrder) {
  Hub hub;
  begin(hub, 2);
  hub.say("a", Post{slot(0), text("a0")});
  hub.say("a", Post{slot(1), text("a1")});
  hub.say("b", Post{slot(1), text("b1")});
  EXPECT_FALSE(hub.to<Closed>("a"));
  hub.say("b", Post{slot(0), text("b0")});
  std::vector<std::uint64_t> order;
  for (const Out& out : hub.heard) {
    if (const auto* closed = std::get_if<Closed>(&out.message); closed && out.to == "a")
      order.push_back(closed->slot.round.number);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1}));
}

TEST(HubCore, DoesNotAcceptRoundsFarAhead) {
  Hub hub;
  begin(hub, 2);
  hub.say("a", Post{slot(kRoundsAhead), {}});
  EXPECT_TRUE(hub.to<Taken>("a"));
  for (const std::uint64_t number : {kRoundsAhead + 1, ~std::uint64_t{0}}) {
    hub.say("a", Post{slot(number), {}});
    EXPECT_FALSE(hub.to<Taken>("a"));
  }
  EXPECT_EQ(hub.refused("ahead"), 2u);
}

TEST(HubCore, ReducesInSiteOrderToTheBit) {
  Hub hub({.run = "run", .sites = 3});
  begin(hub, 3);
  std::vector<float> mean = test::noise_vector(0, 1001);
  for (int site = 1; site < 3; ++site) {
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += test::noise(static_cast<std::uint64_t>(site), i);
  }
  for (float& value : mean) value /= 3.0f;
  for (const std::string peer : {"c", "a", "b"}) {
    const auto seed = static_cast<std::uint64_t>(peer[0] - 'a');
    hub.say(peer, Post{slot(0, Kind::reduce), floats(test::noise_vector(seed, mean.size()))});
  }
  for (const std::string peer : {"a", "b", "c"}) {
    const Closed* closed = hub.to<Closed>(peer);
    ASSERT_TRUE(closed);
    EXPECT_TRUE(closed->included);
    ASSERT_EQ(closed->frames.size(), 1u);
    EXPECT_EQ(closed->frames[0].site, 0);
    EXPECT_EQ(closed->frames[0].bytes, floats(mean));
  }
}

TEST(HubCore, RefusesOddLengthsInReducedRounds) {
  Hub hub({.run = "run", .sites = 3});
  begin(hub, 3);
  hub.say("a", Post{slot(0, Kind::reduce), text("12345")});
  EXPECT_FALSE(hub.to<Taken>("a"));
  EXPECT_EQ(hub.refused("length"), 1u);
  hub.say("a", Post{slot(0, Kind::reduce), floats({1, 2, 3})});
  hub.say("b", Post{slot(0, Kind::reduce), floats({1, 2})});
  hub.say("c", Post{slot(0, Kind::reduce), floats({3, 6})});
  ASSERT_TRUE(hub.to<Closed>("a"));
  EXPECT_FALSE(hub.to<Closed>("a")->included);
  EXPECT_EQ(hub.to<Closed>("a")->absent, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(hub.to<Closed>("a")->frames.at(0).bytes, floats({2, 4}));
  EXPECT_EQ(hub.refused("length"), 2u);
}

}  // namespace
}  // namespace thinwire::hub
