// The near link over NCCL, against its stand-in: what it carries and computes. What goes wrong is
// in nccl_faults_test.
#include "transports/nccl.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "optimizers/distro.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/site_run.h"
#include "tests/support/transport_suite.h"

namespace thinwire::test {
namespace {

class NcclTransport final : public Transport {
 public:
  explicit NcclTransport(const NcclSetting& setting) : ranks_(setting) {
    for (const std::string& one : ranks_.connect()) {
      if (!one.empty()) throw Error(one);
    }
  }
  Collective& collective(int member) override { return ranks_.near(member); }
  Exchange& exchange(int) override { throw Error("NCCL carries no frames"); }

 private:
  NcclRanks ranks_;
};

std::unique_ptr<Transport> connected(const NcclSetting& setting) {
  return std::make_unique<NcclTransport>(setting);
}

// Pieces of a thousand floats: larger parts travel in several turns.
NcclOptions of(const TransportOptions& transport, bool is_staged = false,
               std::size_t piece = 1000) {
  NcclOptions options;
  options.deadline = transport.deadline;
  options.piece = piece;
  options.staged = is_staged;
  return options;
}

NcclSetting setting(int members, const NcclOptions& options) {
  NcclSetting setting(members);
  setting.options = options;
  return setting;
}

std::unique_ptr<Transport> threads(const TransportOptions& options) {
  return connected(setting(options.members, of(options)));
}
std::unique_ptr<Transport> processes(const TransportOptions& options) {
  NcclSetting all = setting(options.members, of(options));
  all.processes = true;
  all.control_deadline = options.deadline;
  return connected(all);
}
std::unique_ptr<Transport> staged(const TransportOptions& options) {
  return connected(setting(options.members, of(options, true, 777)));
}
std::unique_ptr<Transport> bare(const TransportOptions& options) {
  NcclSetting all = setting(options.members, of(options, true, 100'000));
  all.library.has_revoke = all.library.has_memory = false;
  return connected(all);
}

INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveSuite,
                         testing::Values(&threads, &processes, &staged, &bare));
INSTANTIATE_TEST_SUITE_P(Nccl, AllReduceSuite,
                         testing::Values(&threads, &processes, &staged, &bare));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExchangeSuite);  // NCCL carries no frames

TEST(Nccl, SumsOfItsOwnAreNearAndEqualOnAllRanks) {
  for (const bool is_staged : {false, true}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{5001}}) {
      NcclOptions options = of({}, is_staged, 300);
      options.sums = NcclSums::fast;
      const auto transport = connected(setting(4, options));
      const std::vector<float> expected = mean_in_order(4, size);
      std::vector<std::vector<float>> whole(4);
      run_threads(4, [&](int rank) {
        whole[rank] = noise_vector(rank, size);
        transport->collective(rank).all_reduce_mean(whole[rank]);
        const std::vector<std::size_t> cuts = odd_cuts(size, 4);
        std::vector<float> mine(cuts[rank + 1] - cuts[rank]);
        transport->collective(rank).reduce_scatter_mean(noise_vector(rank, size), mine, cuts);
        for (std::size_t i = 0; i < mine.size(); ++i) {
          EXPECT_NEAR(mine[i], expected[cuts[rank] + i], 1e-5);
        }
      });
      for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(whole[rank], whole[0]);
      for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(whole[0][i], expected[i], 1e-5);
    }
  }
}

// Words of any kind travel as floats, also such as are no numbers.
TEST(Nccl, EveryBitArrives) {
  for (const bool is_staged : {false, true}) {
    const auto transport = connected(setting(3, of({}, is_staged)));
    run_threads(3, [&](int rank) {
      std::vector<float> said{std::bit_cast<float>(0x7f800001u + rank),
                              std::bit_cast<float>(0xffffffffu), -0.0f};
      std::vector<float> heard(9);
      transport->collective(rank).all_gather(said, heard, std::vector<std::size_t>{0, 3, 6, 9});
      for (std::uint32_t from = 0; from < 3; ++from) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(heard[3 * from]), 0x7f800001u + from);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(heard[3 * from + 1]), 0xffffffffu);
        EXPECT_EQ(std::bit_cast<std::uint32_t>(heard[3 * from + 2]), 0x80000000u);
      }
    });
  }
}

// Three ranks, whose units are gathered and reduced by a thread beside the one that computes.
TEST(Nccl, ASiteTrainsToTheBitsOfLoopback) {
  for (const NearType type : {NearType::fp32, NearType::bf16}) {
    SiteRunOptions run;
    run.world = {.sites = 1, .ranks = 3, .deadline = milliseconds(20'000)};
    run.steps = 5;
    run.inside.gather = run.inside.reduce = type;
    run.optimizer = [] { return std::make_unique<Demo>(thinwire::distro(1)); };
    run.model = [](int, int rank) { return std::make_unique<ToyModel>(ToyOptions{.site = rank}); };
    const std::uint64_t expected = run_sites(run)[0].hash;
    for (const bool is_staged : {false, true}) {
      const auto library = std::make_shared<FakeLibrary>();
      NcclClique clique(3, library->process());
      run.near = [&](Collective& control, int) {
        return std::make_unique<NcclNear>(clique, control, of({}, is_staged, 2000));
      };
      for (const RankOutcome& rank : run_sites(run)) EXPECT_EQ(rank.hash, expected);
      EXPECT_EQ(library->count("destroy"), 3);
      EXPECT_EQ(library->misuses(), 0);
    }
  }
}

TEST(Nccl, OneRankNeedsNobody) {
  const auto transport = connected(setting(1, {}));
  Collective& near = transport->collective(0);
  std::vector<float> whole{1.0f, 2.0f};
  std::vector<float> mine(2);
  near.reduce_scatter_mean(whole, mine, std::vector<std::size_t>{0, 2});
  EXPECT_EQ(mine, whole);
  near.all_reduce_mean(whole);
  near.broadcast(whole, 0);
  near.barrier();
  EXPECT_EQ(mine, whole);
  EXPECT_EQ(near.traffic(), Traffic{});
}

TEST(Nccl, MemoryIsRegisteredAndGivenBackAndNothingIsTouchedTwice) {
  NcclRanks ranks(setting(3, of({}, true)));
  EXPECT_EQ(ranks.connect(), std::vector<std::string>(3));
  EXPECT_EQ(ranks.play([&](int rank) {
    for (std::size_t size : {10u, 1000u, 100u}) {
      std::vector<float> whole(size, 1.0f);
      ranks.near(rank).all_reduce_mean(whole);
    }
  }),
            std::vector<std::string>(3));
  EXPECT_GT(ranks.library().count("register"), 0);
  EXPECT_EQ(ranks.library().count("destroy"), 0);
  ranks.leave(2);
  ranks.leave(0);
  EXPECT_EQ(ranks.library().count("destroy"), 0);  // together, when the last one leaves
  ranks.leave(1);
  EXPECT_EQ(ranks.library().count("register"), ranks.library().count("deregister"));
  EXPECT_EQ(ranks.library().count("finalize"), 3);
  EXPECT_EQ(ranks.library().count("destroy"), 3);
  EXPECT_EQ(ranks.library().count("abort"), 0);
  EXPECT_EQ(ranks.library().misuses(), 0);
}

}  // namespace
}  // namespace thinwire::test
