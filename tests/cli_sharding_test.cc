// How a site shares its model, by flags of the program, and the trace that it writes.
#include <nlohmann/json.hpp>

#include "tests/support/child.h"
#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

using Json = nlohmann::json;

class CliSharding : public CliTest {
 protected:
  // One site of two ranks; later words win.
  static Words shared_run(const Words& more) {
    Words words = small_run("out", {"--sites", "1", "--ranks", "2", "--methods", "distro"});
    words.insert(words.end(), {"--batch", "8", "--json"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Json summary(const Words& more) const {
    const Outcome outcome = run(shared_run(more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out)[0] : Json();
  }
};

TEST_F(CliSharding, SharesAModelInEveryWayWithTheSameBits) {
  const Json expected = summary({});
  for (const char* name : {"none", "optimizer", "gradient", "full"}) {
    EXPECT_EQ(summary({"--sharding", name}).at("hash"), expected.at("hash")) << name;
  }
  EXPECT_EQ(summary({"--prefetch", "0"}).at("hash"), expected.at("hash"));
  EXPECT_EQ(summary({"--recompute", "1"}).at("hash"), expected.at("hash"));
  EXPECT_NE(summary({"--gather", "bf16"}).at("hash"), expected.at("hash"));
  EXPECT_NE(summary({"--reduce", "bf16"}).at("hash"), expected.at("hash"));
  // Votes of gradients that are all scaled to one norm are the same for any norm.
  EXPECT_NE(summary({"--methods", "sgd", "--clip", "0.01"}).at("hash"),
            summary({"--methods", "sgd"}).at("hash"));
  const Json pieces = summary({"--accumulate", "4"});
  EXPECT_NEAR(pieces.at("loss").get<double>(), expected.at("loss").get<double>(), 0.05);
  const Json wrapped = summary({"--wrap", "all"});
  EXPECT_NEAR(wrapped.at("loss").get<double>(), expected.at("loss").get<double>(), 0.2);
}

TEST_F(CliSharding, WhatOneStrategySavedAnotherGoesOnWith) {
  const auto trained = [&](const Words& more) {
    Words words = small_run("out", {"--sites", "1", "--ranks", "2", "--json"});
    words[0] = "train";
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const Json parsed = Json::parse(outcome.out, nullptr, false);
    return parsed.is_array() ? parsed[0].at("hash").get<std::string>() : outcome.out;
  };
  const std::string whole = trained({});
  for (const auto& [first, second] : {std::pair{"none", "full"}, {"gradient", "none"}}) {
    const std::string dir = first;
    trained({"--save", dir, "--sharding", first, "--until", "3"});
    EXPECT_EQ(trained({"--save", dir, "--sharding", second, "--resume"}), whole) << first;
  }
}

TEST_F(CliSharding, SaysWhereTheTimeOfAStepWent) {
  const Json one = summary({});
  double sum = 0.0;
  for (const char* key :
       {"compute_s", "gather_wait_s", "reduce_wait_s", "extract_s", "exchange_wait_s", "apply_s"}) {
    EXPECT_GT(one.at("times").at(key).get<double>(), 0.0) << key;
    sum += one["times"][key].get<double>();
  }
  EXPECT_LE(sum, one["times"]["total_s"].get<double>());
  EXPECT_GT(one.at("exposed_share").get<double>(), 0.0);
  EXPECT_LT(one.at("exposed_share").get<double>(), 1.0);
}

TEST_F(CliSharding, RefusesWhatItDoesNotKnow) {
  const Words small = small_run("out");
  const auto refused = [&](const Words& more, const std::string& part) {
    expect_usage_error(small_run("out", more), part);
  };
  refused({"--sharding", "zero2"}, "known: none, optimizer, gradient, full");
  refused({"--gather", "fp16"}, "known: fp32, bf16");
  refused({"--reduce", "int8"}, "known: fp32, bf16");
  refused({"--wrap", "size:many"}, "known: unit, size:BYTES");
  refused({"--accumulate", "0"}, "accumulate must be an integer from 1 to");
  refused({"--accumulate", "3"}, "must divide by sites x ranks x accumulate, 6");
  refused({"--clip", "-1"}, "clip must be a number from 0 to");
  refused({"--prefetch", "perhaps"}, "prefetch must be one of true, false");
  refused({"--sharding", "none", "--ranks", "2"}, "for one site, or for one rank a site");
  expect_refused(launch(small_run("out", {"--trace", "no/such/trace"})), 1,
                 "cannot write the trace 'no/such/trace': No such file");
}

TEST_F(CliSharding, WritesATraceOfBothThreadsOfEveryRank) {
  const Outcome outcome = run(shared_run({"--trace", "trace.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> names;
  std::set<int> threads;
  std::uint64_t last_step = 0;
  const Json trace = Json::parse(read("trace.json"));
  for (const Json& event : trace) {
    if (event.at("ph") != "X") continue;
    names.insert(event.at("name"));
    threads.insert(event.at("tid").get<int>());
    EXPECT_EQ(event.at("pid"), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0.0);
    EXPECT_EQ(event.at("args").at("run"), "distro seed 1");
    last_step = std::max(last_step, event["args"].at("step").get<std::uint64_t>());
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"compute", "gather", "reduce", "extract", "exchange", "apply"}));
  EXPECT_EQ(threads, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(last_step, 5u);
}

TEST_F(CliSharding, ATraceIsWholeWheneverItsProgramIsKilled) {
  for (int round = 0; round < 3; ++round) {
    Words words =
        shared_run({"--steps", "1000000", "--eval-every", "1000000", "--trace", "t.json"});
    words.insert(words.begin(), THINWIRE_PROGRAM);
    Child child({.words = words, .directory = dir_.string()});
    ASSERT_TRUE(wait_until(20, [&] { return read("t.json").size() > 20'000u; }));
    pause_ms(5 * round);
    child.kill();
    EXPECT_GT(Json::parse(read("t.json")).size(), 10u);
    std::filesystem::remove(path("t.json"));
  }
}

}  // namespace
}  // namespace thinwire::test
