// The near link over Gloo: each rank a thread with a world of its own here, processes in
// gloo_faults_test.
#include "transports/gloo.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/threads.h"
#include "tests/support/transport_suite.h"
#include "thinwire/error.h"

namespace thinwire::test {
namespace {

struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "thinwire_gloo_XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::string path;
};

std::vector<int> all_of(int size) {
  std::vector<int> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(rank);
  return members;
}

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(const TransportOptions& options)
      : worlds_(options.members), groups_(options.members) {
    run_threads(options.members, [&](int rank) {
      worlds_[rank] = std::make_unique<GlooWorld>(GlooOptions{.rank = rank,
                                                              .size = options.members,
                                                              .directory = directory_.path,
                                                              .deadline = options.deadline});
      groups_[rank] = worlds_[rank]->group("near", all_of(options.members));
    });
  }
  Collective& collective(int member) override { return *groups_[member]; }
  Exchange& exchange(int) override { throw Error("Gloo carries no frames"); }

 private:
  TemporaryDirectory directory_;
  std::vector<std::unique_ptr<GlooWorld>> worlds_;
  std::vector<std::unique_ptr<Collective>> groups_;
};

std::unique_ptr<Transport> make_gloo(const TransportOptions& options) {
  return std::make_unique<GlooTransport>(options);
}

INSTANTIATE_TEST_SUITE_P(Gloo, CollectiveSuite, testing::Values(&make_gloo));
INSTANTIATE_TEST_SUITE_P(Gloo, AllReduceSuite, testing::Values(&make_gloo));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExchangeSuite);  // Gloo carries no frames

// What each rank's call ended with; "" when it went well.
template <class Play>
std::vector<std::string> said_by(int ranks, Play play) {
  std::vector<std::string> said(ranks);
  run_threads(ranks, [&](int rank) {
    try {
      play(rank);
    } catch (const Error& error) {
      said[rank] = error.what();
    }
  });
  return said;
}

void expect_all(const std::vector<std::string>& said, const std::string& text) {
  for (const std::string& one : said) EXPECT_EQ(one, text);
}

TEST(Gloo, LargePartsInManyPiecesHaveTheBitsOfTheOrderedMean) {
  const int members = 3;
  const std::size_t size = 5'000'011;
  const auto transport = make_gloo({.members = members});
  const std::vector<float> expected = mean_in_order(members, size);
  run_threads(members, [&](int member) {
    std::vector<float> whole = noise_vector(member, size);
    transport->collective(member).all_reduce_mean(whole);
    EXPECT_TRUE(whole == expected);
    std::vector<float> sent = noise_vector(member, size);
    transport->collective(member).broadcast(sent, 2);
    EXPECT_TRUE(sent == noise_vector(2, size));
  });
}

TEST(Gloo, DifferentOperationsAreNamedOnAllRanksAndNobodyAborts) {
  const auto transport = make_gloo({.members = 3});
  const auto said = said_by(3, [&](int rank) {
    std::vector<float> data(rank == 1 ? 4000 : 4);
    if (rank == 1) transport->collective(rank).broadcast(data, 2);
    transport->collective(rank).all_reduce_mean(data);
  });
  expect_all(said,
             "near: rank 1 calls broadcast of 4000 floats from rank 2 where rank 0 calls "
             "all_reduce_mean of 4 floats; all must call the same operations in the same order "
             "with the same sizes");
}

TEST(Gloo, DifferentSizesAndCutsAreNamedOnAllRanks) {
  for (const bool sizes : {true, false}) {
    const auto transport = make_gloo({.members = 2});
    const auto said = said_by(2, [&](int rank) {
      std::vector<float> whole(sizes && rank == 1 ? 101 : 100);
      const std::vector<std::size_t> cuts{0, sizes || rank == 0 ? 50u : 60u, whole.size()};
      std::vector<float> mine(cuts[rank + 1] - cuts[rank]);
      transport->collective(rank).all_gather(mine, whole, cuts);
    });
    const std::string rule =
        "; all must call the same operations in the same order with the same sizes";
    expect_all(said, sizes ? "near: rank 1 calls all_gather of 101 floats where rank 0 calls "
                             "all_gather of 100 floats" +
                                 rule
                           : "near: rank 1 calls all_gather of 100 floats cut in another where "
                             "rank 0 calls all_gather of 100 floats cut in one way" +
                                 rule);
  }
}

TEST(Gloo, AllMissingRanksAreNamedAndThoseWhoComeLateHearWhy) {
  const auto transport = make_gloo({.members = 4, .deadline = milliseconds(200)});
  const auto said = said_by(4, [&](int rank) {
    std::vector<float> whole(8);
    if (rank == 1) return;
    if (rank == 3) std::this_thread::sleep_for(milliseconds(600));
    transport->collective(rank).all_reduce_mean(whole);
  });
  const std::string text = "near: rank 1, rank 3 did not come to all_reduce_mean within 200 ms";
  EXPECT_EQ(said, (std::vector<std::string>{text, "", text, text}));
}

TEST(Gloo, AFailedGroupStaysSoAndThoseWhoAreLeftOpenAnother) {
  TemporaryDirectory directory;
  std::mutex mutex;
  std::vector<std::string> again;
  run_threads(3, [&](int rank) {
    GlooWorld world(
        {.rank = rank, .size = 3, .directory = directory.path, .deadline = milliseconds(300)});
    auto near = world.group("near", {0, 1, 2});
    if (rank == 1) return;  // its connections close
    std::vector<float> value{static_cast<float>(rank)};
    for (int turn = 0; turn < 2; ++turn) {
      try {
        near->all_reduce_mean(value);
      } catch (const Error& error) {
        std::lock_guard lock(mutex);
        again.emplace_back(error.what());
      }
    }
    near = world.group("near-2", {0, 2});
    EXPECT_EQ(near->size(), 2);
    EXPECT_EQ(near->rank(), rank / 2);
    value = {static_cast<float>(rank)};
    near->all_reduce_mean(value);
    EXPECT_EQ(value[0], 1.0f);
  });
  // It may be seen to go before all are there, or when this one is.
  for (const std::string& one : again) EXPECT_EQ(one.find("near: rank 1 is gone: "), 0u) << one;
  EXPECT_EQ(again.size(), 4u);
}

TEST(Gloo, GroupsOfOneWorldKeepApart) {
  TemporaryDirectory directory;
  run_threads(4, [&](int rank) {
    GlooWorld world({.rank = rank, .size = 4, .directory = directory.path});
    const int site = rank / 2;
    const int part = rank % 2;
    const auto near = world.group("site-" + std::to_string(site), {2 * site, 2 * site + 1});
    const auto far = world.group("part-" + std::to_string(part), {part, part + 2});
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<float> value{static_cast<float>(rank)};
      near->all_reduce_mean(value);
      EXPECT_EQ(value[0], 2 * site + 0.5f);
      far->all_reduce_mean(value);
      EXPECT_EQ(value[0], 1.5f);
    }
  });
}

TEST(Gloo, RefusesWorldsAndGroupsThatCannotBe) {
  EXPECT_THROW(GlooWorld({.size = 0, .directory = "x"}), UsageError);
  EXPECT_THROW(GlooWorld({.rank = 2, .size = 2, .directory = "x"}), UsageError);
  EXPECT_THROW(GlooWorld({.size = 2}), UsageError);
  EXPECT_THROW(GlooWorld({.size = 2, .directory = "x", .master = "y"}), UsageError);
  EXPECT_THROW(GlooWorld({.rank = 1, .size = 2, .master = "localhost"}), UsageError);
  EXPECT_THROW(GlooWorld({.size = 2, .directory = "/dev/null"}), UsageError);
  GlooWorld alone({.directory = "x"});
  EXPECT_THROW(alone.group("near", {}), UsageError);
  EXPECT_THROW(alone.group("near", {0, 1}), UsageError);
  EXPECT_THROW(alone.group("a b", {0}), UsageError);
  const auto near = alone.group("near", {0});
  EXPECT_THROW(alone.group("near", {0}), UsageError);
  std::vector<float> value{3.0f};
  near->all_reduce_mean(value);
  EXPECT_EQ(value[0], 3.0f);
}

}  // namespace
}  // namespace thinwire::test
