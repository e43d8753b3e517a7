// Updates of another form than the method says are refused.
#include <gtest/gtest.h>

#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "thinwire/sync.h"
#include "transports/loopback.h"

namespace thinwire::test {
namespace {

Dialect dialect() {
  return {.agreement = 7,
          .part = 0,
          .floats = 6,
          .tile_coefficients = {4096, 4096},
          .form = {.dense = false, .value_bits = 1, .picks_a_tile = 2, .scales = false}};
}

Update votes() {
  return {
      .picks = {.value_bits = 1, .counts = {2, 1}, .positions = {3, 4095, 0}, .codes = {0, 1, 1}}};
}

// Site 0 hears what it says itself and `other` from site 1; both are posted before it collects.
struct Outcome {
  Heard heard;
  Traffic traffic;
  std::vector<std::string> complaints;
};

Outcome hear(const Update& other, const Dialect& words = dialect()) {
  LoopbackWorld world({.sites = 2});
  const Shape shape{words.floats, words.tile_coefficients};
  const Round round{1, 0, 0};
  const Header header{words.agreement, round, 1, 0, 0};
  world.far(1, 0).post(round, seal(header, encode(other, shape)));
  DelayedSync sync(world.far(0, 0), {});
  sync.open(words);
  Outcome outcome;
  outcome.heard = sync.exchange({}, 0, 0, votes());
  outcome.traffic = sync.traffic();
  outcome.complaints = sync.take_complaints();
  return outcome;
}

TEST(UpdateForm, AnUpdateOfTheMethodsFormIsHeard) {
  const Outcome outcome = hear(votes());
  ASSERT_EQ(outcome.heard.contributions.size(), 2u);
  EXPECT_EQ(outcome.heard.contributions[1].update, votes());
  EXPECT_EQ(outcome.traffic.refused, 0u);
}

// Its bytes are a valid frame of the agreed layout, but no honest site sends such a thing.
TEST(UpdateForm, AnUpdateOfAnotherFormIsRefused) {
  Update dense = votes();
  dense.dense.assign(6, 1.0f);
  Update wide = votes();
  wide.picks.value_bits = 32;
  Update many = votes();
  many.picks.counts = {3, 0};
  many.picks.positions = {3, 9, 4095};
  Update scaled = votes();
  scaled.picks.scales = {1.0f, 2.0f};
  for (const auto& [update, word] : {std::pair<Update, std::string>{dense, "dense"},
                                     {wide, "32 bits"},
                                     {many, "more than 2"},
                                     {scaled, "scales"}}) {
    const Outcome outcome = hear(update);
    ASSERT_EQ(outcome.heard.contributions.size(), 1u) << word;
    EXPECT_EQ(outcome.heard.contributions[0].site, 0);
    EXPECT_TRUE(outcome.heard.unheard.empty());
    EXPECT_EQ(outcome.traffic.refused, 1u);
    ASSERT_EQ(outcome.complaints.size(), 1u);
    EXPECT_NE(outcome.complaints[0].find(word), std::string::npos) << outcome.complaints[0];
  }
}

TEST(UpdateForm, FewerDenseValuesThanFloatsAreHeardWhereTheMethodIsReadyForThem) {
  Dialect words = dialect();
  words.form = {};
  EXPECT_EQ(hear({.dense = {1.0f, 2.0f}}, words).heard.contributions.size(), 2u);
  words.form.dense_whole = true;
  EXPECT_EQ(hear({.dense = std::vector<float>(6, 1.0f)}, words).heard.contributions.size(), 2u);
  const Outcome outcome = hear({.dense = {1.0f, 2.0f}}, words);
  EXPECT_EQ(outcome.heard.contributions.size(), 1u);
  ASSERT_EQ(outcome.complaints.size(), 1u);
  EXPECT_NE(outcome.complaints[0].find("2 dense values, expected 6"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::test
