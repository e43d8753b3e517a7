// What DelayedSync makes of frames that arrive damaged, late or from elsewhere.
#include "thinwire/sync.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Site 0 of two; site 1 is played: it says the same as site 0, as `spoil` changes it.
class PlayedExchange final : public Exchange {
 public:
  std::function<void(Header&, Update&)> spoil_content = [](Header&, Update&) {};
  std::function<void(Bytes&)> spoil_bytes = [](Bytes&) {};

  int site() const override { return 0; }
  int sites() const override { return 2; }
  void post(const Round& round, Bytes frame) override {
    round_ = round;
    mine_ = std::move(frame);
  }
  RoundResult collect(const Round&) override {
    Header header{7, round_, 1, 0, 99};
    Update update{.dense = {3.0f, 4.0f}};
    spoil_content(header, update);
    Bytes theirs = seal(header, encode(update, {update.dense.size(), {}}));
    spoil_bytes(theirs);
    return {{{0, mine_}, {1, theirs}}, {}};
  }
  Traffic traffic() const override { return {}; }

 private:
  Round round_;
  Bytes mine_;
};

// A link that is gone, from its post or its collect on.
class GoneExchange final : public Exchange {
 public:
  explicit GoneExchange(bool at_post) : at_post_(at_post) {}
  int site() const override { return 0; }
  int sites() const override { return 2; }
  void post(const Round&, Bytes) override {
    if (at_post_) throw Error("gone");
  }
  RoundResult collect(const Round&) override { throw Error("gone"); }
  Traffic traffic() const override { return {}; }

 private:
  bool at_post_;
};

// The optimizer owes it no more: who saves the run now must save it as said.
TEST(DelayedSync, WhatIsSaidIsInFlightWhateverBecomesOfTheLink) {
  for (const bool at_post : {true, false}) {
    GoneExchange far(at_post);
    DelayedSync sync(far, {});
    sync.open({7, 0, 2, {}});
    const Update said{.dense = {1.0f, 2.0f}};
    EXPECT_THROW(sync.exchange({.index = 5, .round = 5}, 0, 99, said), Error);
    ASSERT_EQ(sync.in_flight().size(), 1u);
    EXPECT_EQ(sync.in_flight()[0].step.index, 5u);
    EXPECT_EQ(sync.in_flight()[0].update, said);
  }
}

struct Verdict {
  std::vector<int> heard;
  std::uint64_t refused = 0;
  std::vector<std::string> complaints;
};

Verdict judge(PlayedExchange& far) {
  DelayedSync sync(far, {});
  sync.open({7, 0, 2, {}});
  const Heard heard = sync.exchange({.index = 5, .round = 5}, 0, 99, {.dense = {1.0f, 2.0f}});
  Verdict verdict{{}, sync.traffic().refused, sync.take_complaints()};
  for (const Contribution& one : heard.contributions) verdict.heard.push_back(one.site);
  return verdict;
}

void expect_refused(PlayedExchange& far, const std::string& why) {
  const Verdict verdict = judge(far);
  EXPECT_EQ(verdict.heard, std::vector<int>{0}) << why;
  EXPECT_EQ(verdict.refused, 1u) << why;
  ASSERT_EQ(verdict.complaints.size(), 1u) << why;
  EXPECT_TRUE(verdict.complaints[0].starts_with("round 5, site 1: refused: "));
  EXPECT_NE(verdict.complaints[0].find(why), std::string::npos) << verdict.complaints[0];
}

TEST(DelayedSync, HearsBothSitesWhenNothingIsWrong) {
  PlayedExchange far;
  const Verdict verdict = judge(far);
  EXPECT_EQ(verdict.heard, (std::vector<int>{0, 1}));
  EXPECT_EQ(verdict.refused, 0u);
  EXPECT_TRUE(verdict.complaints.empty());
}

TEST(DelayedSync, RefusesAndCountsFramesOfAnotherMeaning) {
  const auto refuse = [](std::function<void(Header&, Update&)> spoil, const std::string& why) {
    PlayedExchange far;
    far.spoil_content = std::move(spoil);
    expect_refused(far, why);
  };
  refuse([](Header& header, Update&) { header.agreement = 8; }, "another agreement");
  refuse([](Header& header, Update&) { header.round.number = 4; }, "round 4, expected 5");
  refuse([](Header& header, Update&) { header.site = 2; }, "site 2, expected 1");
  refuse([](Header& header, Update&) { header.part = 1; }, "part 1, expected 0");
  refuse([](Header&, Update& update) { update.dense.push_back(5.0f); }, "");
  refuse([](Header&, Update& update) { update.dense[1] = kInfinity; }, "not finite");
  refuse([](Header&, Update& update) { update.dense[0] = kInfinity - kInfinity; }, "not finite");
}

TEST(DelayedSync, RefusesAndCountsDamagedFrames) {
  const auto refuse = [](std::function<void(Bytes&)> spoil) {
    PlayedExchange far;
    far.spoil_bytes = std::move(spoil);
    expect_refused(far, "");
  };
  refuse([](Bytes& bytes) { bytes.clear(); });
  refuse([](Bytes& bytes) { bytes.pop_back(); });
  refuse([](Bytes& bytes) { bytes.push_back(bytes.back()); });
  PlayedExchange whole;
  whole.spoil_bytes = [&](Bytes& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      refuse([i](Bytes& other) { other[i] ^= std::byte{1}; });
    }
  };
  judge(whole);
}

}  // namespace
}  // namespace thinwire
