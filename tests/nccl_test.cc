// The near link over NCCL, against its stand-in: what it carries and computes. What goes wrong is
// in nccl_faults_test.
#include "transports/nccl.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/support/nccl_ranks.h"

namespace thinwire::test {
namespace {

std::unique_ptr<Transport> connected(const NcclSetting& setting) {
  auto ranks = std::make_unique<NcclRanks>(setting);
  for (const std::string& one : ranks->connect()) {
    if (!one.empty()) throw Error(one);
  }
  return ranks;
}

std::unique_ptr<Transport> threads(const TransportOptions& options) {
  return connected(
      {.members = options.members, .options = {.deadline = options.deadline, .piece = 1000}});
}
std::unique_ptr<Transport> processes(const TransportOptions& options) {
  return connected({.members = options.members,
                    .processes = true,
                    .options = {.deadline = options.deadline},
                    .control_deadline = options.deadline});
}
std::unique_ptr<Transport> staged(const TransportOptions& options) {
  return connected({.members = options.members,
                    .options = {.deadline = options.deadline, .piece = 777, .staged = true}});
}
std::unique_ptr<Transport> bare(const TransportOptions& options) {
  return connected({.members = options.members,
                    .options = {.deadline = options.deadline, .piece = 100'000, .staged = true},
                    .library = {.has_revoke = false, .has_memory = false}});
}

INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveSuite,
                         testing::Values(&threads, &processes, &staged, &bare));
INSTANTIATE_TEST_SUITE_P(Nccl, AllReduceSuite,
                         testing::Values(&threads, &processes, &staged, &bare));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExchangeSuite);  // NCCL carries no frames

TEST(Nccl, SumsOfItsOwnAreNearAndEqualOnAllRanks) {
  for (const bool is_staged : {false, true}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{5001}}) {
      const auto transport = connected(
          {.members = 4, .options = {.piece = 300, .sums = NcclSums::fast, .staged = is_staged}});
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
    const auto transport = connected({.members = 3, .options = {.staged = is_staged}});
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

TEST(Nccl, OneRankNeedsNobody) {
  const auto transport = connected({.members = 1});
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
  NcclRanks ranks({.members = 3, .options = {.staged = true}});
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
