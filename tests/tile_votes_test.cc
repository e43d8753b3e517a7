// What several sites said of a tile, brought together: a site that shouts, against the median.
#include "optimizers/tile_votes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "optimizers/catalog.h"
#include "tests/support/random.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

using Values = std::vector<float>;
constexpr int kTiles = 3;

// Says all values of each tile in order, times `loud`.
Contribution said_by(int site, std::size_t count, float loud) {
  Contribution one;
  one.site = site;
  for (int tile = 0; tile < kTiles; ++tile) {
    one.update.picks.counts.push_back(static_cast<std::uint16_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = test::mix(static_cast<std::uint64_t>(site * 1000 + tile) * 77 + i);
      const float value = 0.5f + static_cast<float>(bits % 1000) / 1000.0f;
      one.update.picks.positions.push_back(static_cast<std::uint16_t>(i));
      one.update.picks.codes.push_back(float_code(loud * (bits % 2 == 0 ? value : -value)));
    }
  }
  return one;
}

std::vector<Values> sums_of(const std::vector<Contribution>& heard, bool clip) {
  std::vector<Values> tiles;
  TileVotes votes(heard, {.clip_to_median = clip});
  for (int tile = 0; tile < kTiles; ++tile) {
    votes.next_tile();
    const auto sums = votes.means(1);  // divided by 1
    tiles.emplace_back(sums.begin(), sums.end());
  }
  return tiles;
}

double norm(const Values& values) {
  double squares = 0.0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

Values minus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

TEST(ClipToMedian, OneSiteThatShoutsMovesNothingBeyondTheMedian) {
  const std::vector<Contribution> quiet{said_by(0, 8, 1.0f), said_by(1, 8, 1.0f)};
  std::vector<Contribution> all = quiet;
  all.push_back(said_by(2, 8, 1e6f));
  const auto without = sums_of(quiet, false);
  const auto clipped = sums_of(all, true);
  const auto shouted = sums_of(all, false);
  for (int tile = 0; tile < kTiles; ++tile) {
    const double a = norm(sums_of({quiet[0]}, false)[tile]);
    const double b = norm(sums_of({quiet[1]}, false)[tile]);
    // Of three the median is the louder of the quiet two, which are not touched themselves.
    EXPECT_NEAR(norm(minus(clipped[tile], without[tile])), std::max(a, b), 1e-4);
    EXPECT_GT(norm(minus(shouted[tile], without[tile])), 1e5);
  }
}

TEST(ClipToMedian, OfTwoSitesTheLouderComesDownToTheOther) {
  const std::vector<Contribution> heard{said_by(0, 5, 1e30f), said_by(1, 5, 1.0f)};
  const auto both = sums_of(heard, true);
  const auto quiet = sums_of({heard[1]}, false);
  for (int tile = 0; tile < kTiles; ++tile) {
    EXPECT_NEAR(norm(minus(both[tile], quiet[tile])), norm(quiet[tile]), 1e-5);
  }
}

TEST(ClipToMedian, NobodyIsScaledUpAndEqualsStayAsTheyAre) {
  const std::vector<Contribution> one{said_by(0, 8, 3.0f)};
  EXPECT_EQ(sums_of(one, true), sums_of(one, false));
  std::vector<Contribution> equal(3, said_by(1, 8, 1.0f));
  EXPECT_EQ(sums_of(equal, true), sums_of(equal, false));
  // Only what is above the median changes, and the quietest site adds what it always did.
  const std::vector<Contribution> two{said_by(0, 8, 1.0f), said_by(1, 8, 2.0f)};
  std::vector<Contribution> three = two;
  three.insert(three.begin(), said_by(2, 8, 1e-3f));
  const auto with = sums_of(three, true);
  for (int tile = 0; tile < kTiles; ++tile) {
    EXPECT_LE(norm(with[tile]), 2.001 * norm(sums_of({two[0]}, false)[tile]));
  }
}

TEST(ClipToMedian, ASiteThatIsSilentInATileIsNotCounted) {
  // With three silent sites counted as 0 the median would be 0 and nothing would be left.
  std::vector<Contribution> heard{said_by(0, 8, 1.0f), said_by(1, 0, 1.0f), said_by(2, 0, 1.0f),
                                  said_by(3, 0, 1.0f)};
  EXPECT_EQ(sums_of(heard, true), sums_of(heard, false));
}

TEST(ClipToMedian, EveryThreadGetsEqualBits) {
  std::vector<Contribution> heard;
  for (int site = 0; site < 7; ++site) heard.push_back(said_by(site, 64, site == 3 ? 1e6f : 1.0f));
  const auto expected = sums_of(heard, true);
  std::vector<std::vector<Values>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& one : got) threads.emplace_back([&] { one = sums_of(heard, true); });
  }
  for (const auto& one : got) EXPECT_EQ(one, expected);
}

TEST(ClipToMedian, IsRefusedForVotes) {
  const OptimizerCatalog catalog = optimizer_catalog();
  for (const std::string name : {"demo", "distro"}) {
    Settings settings(name, {{"clip_to_median", "1"}, {"bits", "1"}});
    try {
      catalog.make(name, settings);
      ADD_FAILURE() << "not refused";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), name +
                                  ": clip_to_median needs bits = 32; with bits = 1 the vote itself "
                                  "bounds what one site can do");
    }
  }
}

}  // namespace
}  // namespace thinwire
