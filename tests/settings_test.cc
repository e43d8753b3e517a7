#include "thinwire/settings.h"

#include <gtest/gtest.h>

#include <functional>

#include "thinwire/error.h"

namespace thinwire {
namespace {

std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(Settings, GivesTheFallbackWhenNothingWasSaid) {
  Settings settings("distro");
  EXPECT_EQ(settings.integer("k", 8, 1, 4096), 8);
  EXPECT_EQ(settings.number("decay", 0.999, 0, 1), 0.999);
  EXPECT_TRUE(settings.flag("sign", true));
  EXPECT_EQ(settings.choice("mean", "senders", {"senders", "all"}), "senders");
  settings.finish();
}

TEST(Settings, ReadsWhatWasSaid) {
  Settings settings("distro",
                    {{"k", "4096"}, {"decay", "1e-3"}, {"sign", "false"}, {"mean", "all"}});
  EXPECT_EQ(settings.integer("k", 8, 1, 4096), 4096);
  EXPECT_EQ(settings.number("decay", 0.999, 0, 1), 0.001);
  EXPECT_FALSE(settings.flag("sign", true));
  EXPECT_EQ(settings.choice("mean", "senders", {"senders", "all"}), "all");
  settings.finish();
}

TEST(Settings, NamesTheRangeOfAnInteger) {
  for (std::string bad :
       {"0", "4097", "8.0", "1e2", " 8", "+8", "8x", "", "99999999999999999999"}) {
    Settings settings("distro", {{"k", bad}});
    EXPECT_EQ(complaint([&] { settings.integer("k", 8, 1, 4096); }),
              "distro: k must be an integer from 1 to 4096, got '" + bad + "'");
  }
}

TEST(Settings, NamesTheRangeOfANumber) {
  for (std::string bad : {"nan", "inf", "-inf", "1.5", "-0.1", "0,5", "1e999", "x", ""}) {
    Settings settings("demo", {{"decay", bad}});
    EXPECT_EQ(complaint([&] { settings.number("decay", 0.5, 0, 1); }),
              "demo: decay must be a number from 0 to 1, got '" + bad + "'");
  }
}

TEST(Settings, ListsWhatMayBeChosen) {
  Settings settings("demo", {{"mean", "some"}, {"sign", "yes"}});
  EXPECT_EQ(complaint([&] {
              settings.choice("mean", "all", {"senders", "all"});
            }),
            "demo: mean must be one of senders, all, got 'some'");
  EXPECT_EQ(complaint([&] { settings.flag("sign", true); }),
            "demo: sign must be one of true, false, got 'yes'");
}

TEST(Settings, SuggestsTheNameThatWasMeant) {
  Settings settings("distro", {{"dleay", "1"}});
  settings.integer("delay", 0, 0, 8);
  settings.number("lr", 0.1, 0, 1);
  EXPECT_EQ(complaint([&] { settings.finish(); }),
            "distro has no setting 'dleay'; did you mean 'delay'?");
}

TEST(Settings, ListsTheKnownNamesWhenNoneIsNear) {
  Settings settings("distro", {{"momentum", "1"}});
  settings.integer("delay", 0, 0, 8);
  settings.number("lr", 0.1, 0, 1);
  EXPECT_EQ(complaint([&] { settings.finish(); }),
            "distro has no setting 'momentum'; known: delay, lr");
  Settings bare("alone", {{"x", "1"}});
  EXPECT_EQ(complaint([&] { bare.finish(); }), "alone has no setting 'x'; it has none");
}

TEST(Settings, DoesNotSuggestAnotherShortWord) {
  Settings settings("distro", {{"b", "1"}});
  settings.integer("k", 8, 1, 64);
  EXPECT_EQ(complaint([&] { settings.finish(); }), "distro has no setting 'b'; known: k");
}

TEST(Settings, ResolvesToTextThatReadsBackTheSame) {
  Settings first("demo", {{"lr", "0.008"}, {"decay", "9.99e-1"}});
  double third = 1.0 / 3.0;
  first.number("lr", 1, 0, 1);
  first.number("decay", 1, 0, 1);
  first.number("third", third, 0, 1);
  first.integer("k", -3, -8, 8);
  first.flag("sign", true);
  EXPECT_EQ(first.resolved().at("lr"), "0.008");
  EXPECT_EQ(first.resolved().at("decay"), "0.999");
  EXPECT_EQ(first.resolved().at("k"), "-3");
  EXPECT_EQ(first.resolved().at("sign"), "true");
  Settings second("demo", first.resolved());
  EXPECT_EQ(second.number("lr", 0, 0, 1), 0.008);
  EXPECT_EQ(second.number("third", 0, 0, 1), third);
  EXPECT_EQ(second.number("decay", 0, 0, 1), 0.999);
  EXPECT_EQ(second.integer("k", 0, -8, 8), -3);
  EXPECT_TRUE(second.flag("sign", false));
  second.finish();
  EXPECT_EQ(second.resolved(), first.resolved());
}

TEST(Nearest, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(nearest("dleay", {"decay", "delay"}), "delay");
  EXPECT_EQ(nearest("adamv", {"lion", "adamw", "demo"}), "adamw");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace thinwire
