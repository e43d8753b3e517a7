#include "thinwire/link_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr LinkOptions kPlain{.rate = 1e6, .delay = 0.025};

double mean_arrival(const LinkOptions& options, double bytes, int transfers) {
  double sum = 0.0;
  LinkModel link(options, 7);
  for (int i = 0; i < transfers; ++i) {
    double begin = 1e6 * i;  // far apart: nothing queues
    sum += link.arrival(begin, bytes) - begin;
  }
  return sum / transfers;
}

TEST(ParseLink, HalvesTheRoundTrip) {
  EXPECT_EQ(parse_link("100mbit,50ms"), (LinkOptions{.rate = 12.5e6, .delay = 0.025}));
  LinkOptions full = parse_link("1gbit,20ms,0.1%,5ms");
  EXPECT_DOUBLE_EQ(full.rate, 125e6);
  EXPECT_DOUBLE_EQ(full.delay, 0.010);
  EXPECT_DOUBLE_EQ(full.loss, 0.001);
  EXPECT_DOUBLE_EQ(full.jitter, 0.005);
  EXPECT_DOUBLE_EQ(parse_link("64kbit,1s").rate, 8e3);
  EXPECT_DOUBLE_EQ(parse_link("64kbit,1s").delay, 0.5);
}

TEST(ParseLink, RefusesOtherFormsAndShowsTheRightOne) {
  for (const char* bad : {"", "100mbit", "100,50ms", "100mbit,50", "100mbit,50ms,1", "fast,50ms",
                          "100mbit,50ms,1%,2ms,3", "nanmbit,1ms", "100mbit, 50ms", "infmbit,1ms"}) {
    try {
      parse_link(bad);
      ADD_FAILURE() << bad;
    } catch (const UsageError& error) {
      std::string what = error.what();
      EXPECT_NE(what.find("100mbit,50ms"), std::string::npos) << what;
      EXPECT_NE(what.find("got '" + std::string(bad) + "'"), std::string::npos) << what;
    }
  }
}

TEST(ParseLink, RefusesValuesOutOfRange) {
  for (const char* bad : {"0mbit,50ms", "-1mbit,50ms", "1mbit,-5ms", "1mbit,5ms,51%",
                          "1mbit,5ms,-1%", "1mbit,5ms,0%,-1ms"}) {
    EXPECT_THROW(parse_link(bad), UsageError) << bad;
  }
}

TEST(LinkOptions, ReadsAsASentence) {
  EXPECT_EQ(to_string(parse_link("100mbit,50ms")), "100 Mbit/s, 50 ms round trip, no loss");
  EXPECT_EQ(to_string(parse_link("2.5gbit,7ms,0.1%,5ms")),
            "2.5 Gbit/s, 7 ms round trip, 0.1% loss, 5 ms jitter");
  EXPECT_EQ(to_string(parse_link("64kbit,1s")), "64 kbit/s, 1000 ms round trip, no loss");
}

TEST(LinkModel, TakesBytesOverRatePlusDelayWithoutLoss) {
  LinkModel link(kPlain, 1);
  EXPECT_DOUBLE_EQ(link.arrival(3.0, 2e6), 3.0 + 2.0 + 0.025);
  EXPECT_DOUBLE_EQ(link.free_at(), 5.0);
}

TEST(LinkModel, QueuesTransfersBehindEachOther) {
  LinkModel link(kPlain, 1);
  EXPECT_DOUBLE_EQ(link.arrival(0.0, 1e6), 1.025);
  EXPECT_DOUBLE_EQ(link.arrival(0.5, 1e6), 2.025);    // waited half a second
  EXPECT_DOUBLE_EQ(link.arrival(10.0, 1e6), 11.025);  // found the line free
}

TEST(LinkModel, CostsARoundTripForALostPacket) {
  // One packet: the number of repeats is geometric, mean p / (1 - p).
  LinkOptions lossy{.rate = 1e9, .delay = 0.5, .loss = 0.2};
  EXPECT_NEAR(mean_arrival(lossy, 1000, 20000), 0.5 + 0.25 * 1.0, 0.02);
}

TEST(LinkModel, ResendsTheExpectedShare) {
  // Without delay only the repeated bytes take time: n (1 + p + p^2 + ...) = n / (1 - p).
  for (double packets : {100.0, 50000.0}) {  // drawn exactly, and by the normal approximation
    LinkOptions lossy{.rate = kPacketBytes, .delay = 0, .loss = 0.1};
    EXPECT_NEAR(mean_arrival(lossy, packets * kPacketBytes, 2000) / packets, 1 / 0.9, 0.003);
  }
}

TEST(LinkModel, SpreadsLossesLikeABinomial) {
  LinkOptions lossy{.rate = 1.0, .delay = 1e12, .loss = 0.01};
  int clean = 0;
  LinkModel link(lossy, 3);
  for (int i = 0; i < 20000; ++i) {
    double begin = 1e15 * (i + 1.0);
    clean += link.arrival(begin, 50 * kPacketBytes) - begin < 1.5e12;
  }
  EXPECT_NEAR(clean / 20000.0, 0.605, 0.015);  // 0.99^50
}

TEST(LinkModel, KeepsJitterWithinItsBounds) {
  LinkOptions shaky = kPlain;
  shaky.jitter = 0.010;
  LinkModel link(shaky, 5);
  double low = 1.0, high = 0.0;
  for (int i = 0; i < 1000; ++i) {
    double took = link.arrival(10.0 * i, 1e6) - 10.0 * i - 1.025;
    low = std::min(low, took);
    high = std::max(high, took);
  }
  EXPECT_GE(low, -1e-9);
  EXPECT_LE(high, 0.010 + 1e-9);
  EXPECT_LT(low, 0.001);
  EXPECT_GT(high, 0.009);
}

TEST(LinkModel, NeverOvertakes) {
  LinkModel link({.rate = 1e9, .delay = 0.01, .loss = 0.3, .jitter = 1.0}, 5);
  double last = 0.0;
  for (int i = 0; i < 1000; ++i) {
    double arrived = link.arrival(0.001 * i, 3000);
    EXPECT_GE(arrived, last);
    last = arrived;
  }
}

TEST(LinkModel, GivesTheSameTimesForTheSameSeedOnly) {
  auto times = [](std::uint64_t seed) {
    LinkModel link({.rate = 1e6, .delay = 0.02, .loss = 0.05, .jitter = 0.01}, seed);
    std::vector<double> all;
    for (int i = 0; i < 50; ++i) all.push_back(link.arrival(i, 20000.0 * (i + 1)));
    return all;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
}

TEST(LinkModel, RefusesImpossibleLinks) {
  EXPECT_THROW(LinkModel({.rate = 0}, 1), UsageError);
  EXPECT_THROW(LinkModel({.delay = -1}, 1), UsageError);
  EXPECT_THROW(LinkModel({.loss = 0.6}, 1), UsageError);
  EXPECT_THROW(LinkModel({.jitter = -1}, 1), UsageError);
}

TEST(ModelledStep, IsComputeUpAndDownWhenSynchronous) {
  StepTraffic traffic{.compute_s = 0.1, .bytes_up = 1e5, .bytes_down = 4e5, .sites = 4};
  EXPECT_NEAR(modelled_step_s(traffic, kPlain, 1), 0.1 + 0.1 + 0.025 + 0.4 + 0.025, 1e-12);
}

TEST(ModelledStep, HidesAnExchangeShorterThanTheComputation) {
  StepTraffic traffic{.compute_s = 1.0, .bytes_up = 1e5, .bytes_down = 4e5, .sites = 4, .delay = 1};
  EXPECT_NEAR(modelled_step_s(traffic, kPlain, 1), 1.0, 1e-12);
}

TEST(ModelledStep, SharesALongExchangeAmongDelayedSteps) {
  // A round takes 0.05 s; from its saying to its hearing lie `delay` computations.
  StepTraffic traffic{.compute_s = 0.01, .bytes_up = 1, .bytes_down = 1, .sites = 2, .delay = 1};
  LinkOptions fast{.rate = 1e12, .delay = 0.025};
  EXPECT_NEAR(modelled_step_s(traffic, fast, 1), (0.01 + 0.05) / 2, 1e-9);
  traffic.delay = 2;
  EXPECT_NEAR(modelled_step_s(traffic, fast, 1), (0.01 + 0.05) / 3, 1e-9);
  traffic.delay = 8;
  EXPECT_NEAR(modelled_step_s(traffic, fast, 1), 0.01, 1e-9);
}

TEST(ModelledStep, CannotOutrunTheLine) {
  StepTraffic traffic{.compute_s = 0.1, .bytes_up = 5e5, .bytes_down = 1e6, .sites = 3, .delay = 4};
  EXPECT_NEAR(modelled_step_s(traffic, kPlain, 1), 1.0, 1e-9);
}

TEST(ModelledStep, TakesTwicePhasesOfAllOthersInARing) {
  StepTraffic traffic{
      .compute_s = 0.1, .bytes_up = 6e5, .bytes_down = 6e5, .sites = 4, .delay = 0, .ring = true};
  EXPECT_NEAR(modelled_step_s(traffic, kPlain, 1), 0.1 + 6 * (0.1 + 0.025), 1e-12);
}

TEST(ModelledStep, IsTheComputationOfASiteAlone) {
  StepTraffic alone{.compute_s = 0.1, .bytes_up = 1e6, .bytes_down = 1e6, .sites = 1};
  EXPECT_EQ(modelled_step_s(alone, kPlain, 1), 0.1);
  StepTraffic silent{.compute_s = 0.1, .sites = 4};
  EXPECT_EQ(modelled_step_s(silent, kPlain, 1), 0.1);
}

TEST(ModelledStep, WaitsForTheUnluckiestSite) {
  LinkOptions lossy{.rate = 1e9, .delay = 0.05, .loss = 0.1};
  StepTraffic traffic{.compute_s = 0, .bytes_up = 1000, .bytes_down = 1000, .sites = 2};
  double two = modelled_step_s(traffic, lossy, 1, 2000);
  traffic.sites = 16;
  double many = modelled_step_s(traffic, lossy, 1, 2000);
  EXPECT_GT(two, 0.1);
  EXPECT_GT(many, two * 1.2);
  EXPECT_EQ(many, modelled_step_s(traffic, lossy, 1, 2000));
}

}  // namespace
}  // namespace thinwire
