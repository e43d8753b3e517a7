#include "transports/loopback.h"

#include <gtest/gtest.h>

#include "tests/support/threads.h"
#include "tests/support/transport_suite.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(const TransportOptions& options)
      : near_({.ranks = options.members, .deadline = options.deadline}),
        far_({.sites = options.members, .deadline = options.deadline}) {}
  Collective& collective(int member) override { return near_.near(0, member); }
  Exchange& exchange(int member) override { return far_.far(member, 0); }

 private:
  LoopbackWorld near_;
  LoopbackWorld far_;
};

std::unique_ptr<Transport> make_loopback(const TransportOptions& options) {
  return std::make_unique<LoopbackTransport>(options);
}

INSTANTIATE_TEST_SUITE_P(Loopback, CollectiveSuite, testing::Values(&make_loopback));
INSTANTIATE_TEST_SUITE_P(Loopback, AllReduceSuite, testing::Values(&make_loopback));
INSTANTIATE_TEST_SUITE_P(Loopback, ExchangeSuite, testing::Values(&make_loopback));

const LinkOptions kSlow{.rate = 1e6, .delay = 0.5};

TEST(Loopback, ComputesTheTimeOfARoundWithoutSleeping) {
  LoopbackWorld world({.sites = 2, .link = kSlow});
  world.spend(1, 0, 3.0);
  run_threads(2, [&](int site) {
    world.far(site, 0).post({1, 0, 0}, Bytes(1'000'000));
    world.far(site, 0).collect({1, 0, 0});
    // The later site starts at 3 s; 1 s to send, 0.5 s to the hub; 1 s and 0.5 s to the other site.
    EXPECT_DOUBLE_EQ(world.now(site, 0), 6.0);
  });
}

TEST(Loopback, LeavesOutWhatWouldArriveAfterTheRoundsDeadline) {
  LoopbackWorld world({.sites = 3, .link = kSlow, .round_deadline_s = 2.0});
  world.spend(1, 0, 5.0);
  run_threads(3, [&](int site) {
    world.far(site, 0).post({1, 0, 0}, Bytes(1000));
    const RoundResult heard = world.far(site, 0).collect({1, 0, 0});
    EXPECT_EQ(heard.absent, std::vector<int>{1});
    EXPECT_EQ(heard.frames.size(), 2u);
  });
  EXPECT_EQ(world.far(1, 0).traffic().refused, 1u);
}

TEST(Loopback, IsDeterministicForASeed) {
  std::vector<double> times;
  for (std::uint64_t seed : {1u, 1u, 2u}) {
    const LinkOptions lossy{.rate = 1e6, .delay = 0.02, .loss = 0.05, .jitter = 0.01};
    LoopbackWorld world({.sites = 2, .link = lossy, .seed = seed});
    run_threads(2, [&](int site) {
      for (std::uint64_t number = 0; number < 20; ++number) {
        world.far(site, 0).post({1, number, 0}, Bytes(100'000));
        world.far(site, 0).collect({1, number, 0});
      }
    });
    times.push_back(world.now(0, 0));
  }
  EXPECT_EQ(times[0], times[1]);
  EXPECT_NE(times[0], times[2]);
}

TEST(Loopback, AFailedRankEndsTheWaitOfAllOthers) {
  LoopbackWorld world({.sites = 2, .ranks = 2});
  std::vector<std::string> said(4);
  run_threads(4, [&](int i) {
    if (i == 3) return world.fail("site 1, rank 1 failed: out of memory");
    try {
      std::vector<float> data(4);
      if (i == 0) world.near(0, 0).all_reduce_mean(data);
      if (i == 1) world.far_collective(0, 1).all_reduce_mean(data);
      if (i == 2) world.far(1, 0).collect({1, 0, 0});
    } catch (const Error& error) {
      said[i] = error.what();
    }
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(said[i], "site 1, rank 1 failed: out of memory");
}

TEST(Loopback, MembersThatCallDifferentOperationsAreToldSo) {
  LoopbackWorld world({.ranks = 2});
  std::vector<std::string> said(2);
  run_threads(2, [&](int rank) {
    try {
      std::vector<float> data(rank == 0 ? 4 : 4000);
      if (rank == 0) world.near(0, rank).broadcast(data, 1);
      if (rank == 1) world.near(0, rank).all_reduce_mean(data);
    } catch (const Error& error) {
      said[rank] = error.what();
    }
  });
  for (const std::string& text : said) {
    EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
    EXPECT_NE(text.find("reduce_scatter_mean"), std::string::npos) << text;
  }
}

TEST(Loopback, RefusesWorldsThatCannotBe) {
  EXPECT_THROW(LoopbackWorld({.sites = 0}), UsageError);
  EXPECT_THROW(LoopbackWorld({.ranks = 0}), UsageError);
  EXPECT_THROW(LoopbackWorld({.round_deadline_s = 0.0}), UsageError);
  EXPECT_THROW(LoopbackWorld({.link = LinkOptions{.rate = 0.0}}), UsageError);
}

}  // namespace
}  // namespace thinwire::test
