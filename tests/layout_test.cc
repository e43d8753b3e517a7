#include "thinwire/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "thinwire/error.h"
#include "thinwire/shard.h"

namespace thinwire {
namespace {

std::vector<ParameterSpec> odd_shapes() {
  return {{"a", {130, 70}, 0},
          {"bias", {70}, 0},
          {"scalar", {}, 0},
          {"empty", {0, 5}, 0},
          {"frozen", {3, 3}, 0, false},
          {"prime", {127, 127}, 1},
          {"cube", {3, 32, 48}, 1},
          {"long", {8193}, 1}};
}

std::size_t side(std::size_t n) {
  return Layout({{"p", {n, 64}}}, Chunking::divisor).blocks()[0].tile_height;
}

TEST(Layout, PutsMatricesFirstThenThePoolAndFrozenOnesApart) {
  const Layout layout(odd_shapes());
  EXPECT_EQ(layout.units(), 2);
  EXPECT_EQ(layout.unit_size(0), 130u * 70 + 70 + 1);
  EXPECT_EQ(layout.frozen_size(0), 9u);
  EXPECT_EQ(layout.place(layout.index_of("bias")).offset, 130u * 70);
  EXPECT_EQ(layout.place(layout.index_of("scalar")).offset, 130u * 70 + 70);
  EXPECT_FALSE(layout.place(layout.index_of("frozen")).trainable);
  EXPECT_EQ(layout.place(layout.index_of("empty")).size, 0u);
}

TEST(Layout, CutsPaddedTilesOf64) {
  const Layout layout(odd_shapes());
  const Block& a = layout.blocks()[0];
  EXPECT_EQ(a.grid_rows(), 3u);
  EXPECT_EQ(a.grid_cols(), 2u);
  const Block& pool = layout.blocks()[1];
  EXPECT_EQ(pool.size, 71u);
  EXPECT_EQ(pool.rows, 2u);
  EXPECT_EQ(pool.cols, 64u);
  const Block& cube = layout.blocks()[3];
  EXPECT_EQ(cube.rows, 3u);
  EXPECT_EQ(cube.cols, 32u * 48);
}

// The published examples (docs/decisions, DeMo reference).
TEST(Layout, FollowsThePublishedDivisorRule) {
  EXPECT_EQ(side(768), 64u);
  EXPECT_EQ(side(1000), 50u);
  EXPECT_EQ(side(130), 26u);
  EXPECT_EQ(side(4097), 17u);
  EXPECT_EQ(side(50257), 29u);
  EXPECT_EQ(side(127), 1u);
  const Layout layout({{"cube", {3, 32, 48}}, {"vector", {130}}, {"scalar", {}}},
                      Chunking::divisor);
  EXPECT_EQ(layout.blocks()[0].tile_height, 32u);
  EXPECT_EQ(layout.blocks()[0].tile_width, 48u);
  EXPECT_EQ(layout.blocks()[0].grid_rows(), 3u);
  EXPECT_EQ(layout.blocks()[1].tile_width, 26u);
  EXPECT_EQ(layout.blocks()[2].size, 1u);
}

TEST(Layout, HashTellsEveryDifference) {
  const std::uint64_t hash = Layout(odd_shapes()).hash();
  EXPECT_EQ(Layout(odd_shapes()).hash(), hash);
  EXPECT_NE(Layout(odd_shapes(), Chunking::divisor).hash(), hash);
  auto other = odd_shapes();
  other[0].shape = {70, 130};
  EXPECT_NE(Layout(other).hash(), hash);
  other = odd_shapes();
  other[0].trainable = false;
  EXPECT_NE(Layout(other).hash(), hash);
  other = odd_shapes();
  std::swap(other[0], other[1]);
  EXPECT_NE(Layout(other).hash(), hash);
}

TEST(Layout, RefusesNamesAndUnitsThatMakeNoSense) {
  EXPECT_THROW(Layout({{"a", {1}}, {"a", {2}}}), UsageError);
  EXPECT_THROW(Layout({{"", {1}}}), UsageError);
  EXPECT_THROW(Layout({{"a", {1}, 1}}), UsageError);
  EXPECT_THROW(Layout({{"a", {std::size_t{1} << 40, std::size_t{1} << 40}}}), UsageError);
  EXPECT_THROW(Layout(odd_shapes()).index_of("nobody"), Error);
}

TEST(Shard, PartsCoverEveryValueOnceForAnyNumberOfRanks) {
  for (Chunking chunking : {Chunking::padded, Chunking::divisor}) {
    const Layout layout(odd_shapes(), chunking);
    for (int ranks : {1, 2, 3, 4, 7, 40}) {
      std::size_t values = 0;
      std::size_t tile_values = 0;
      std::size_t rows = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard(layout, rank, ranks);
        values += shard.params().size();
        for (const Tile& tile : shard.tiles()) tile_values += tile.rows * tile.cols + tile.tail;
        for (std::size_t i = 0; i < layout.tile_rows().size(); ++i) {
          rows += shard.range(i).size > 0 ? 1 : 0;
        }
      }
      EXPECT_EQ(values, layout.trainable_size()) << ranks;
      EXPECT_EQ(tile_values, layout.trainable_size()) << ranks;
      EXPECT_EQ(rows, layout.tile_rows().size()) << ranks;
    }
  }
}

TEST(Shard, TilesDoNotDependOnTheNumberOfRanks) {
  const Layout layout(odd_shapes());
  const auto shapes = [&](int ranks) {
    std::vector<std::vector<std::size_t>> all;
    for (int unit = 0; unit < layout.units(); ++unit) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard(layout, rank, ranks);
        for (const Piece& piece : shard.pieces()) {
          if (layout.blocks()[piece.block].unit != unit) continue;
          for (std::size_t i = 0; i < piece.tiles; ++i) {
            const Tile& tile = shard.tiles()[piece.first_tile + i];
            all.push_back({piece.block, tile.rows, tile.cols, tile.tail, tile.stride});
          }
        }
      }
    }
    return all;
  };
  EXPECT_EQ(shapes(1), shapes(2));
  EXPECT_EQ(shapes(1), shapes(5));
}

TEST(Shard, BalancesWhenRowsAreMany) {
  const Layout layout({{"w", {4096, 64}}});
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(Shard(layout, rank, 4).params().size(), 1024u * 64);
}

// A border lies within half a row of tiles of where an even cut would be.
TEST(Shard, BorderIsTheNearestToAnEvenCut) {
  const Layout layout({{"attn", {128, 384}}, {"out", {512, 128}}, {"b", {1664}}});
  const std::size_t size = layout.unit_size(0);
  for (std::size_t ranks : {2u, 3u, 4u, 5u}) {
    const std::vector<std::size_t> cuts = unit_cuts(layout, 0, static_cast<int>(ranks));
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const std::size_t even = size * rank / ranks;
      for (const TileRow& row : layout.tile_rows()) {
        const auto away = [&](std::size_t at) { return at > even ? at - even : even - at; };
        EXPECT_LE(away(cuts[rank]), away(row.end)) << ranks << " ranks, border " << rank;
      }
    }
  }
}

TEST(Shard, WholeBlocksHaveOneOwnerEach) {
  for (Chunking chunking : {Chunking::padded, Chunking::divisor}) {
    const Layout layout(odd_shapes(), chunking);
    for (int ranks = 1; ranks <= 8; ++ranks) {
      std::vector<int> owners(layout.blocks().size(), 0);
      std::size_t values = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard(layout, rank, ranks, {}, true);
        values += shard.params().size();
        for (const Piece& piece : shard.pieces()) {
          EXPECT_EQ(piece.size, layout.blocks()[piece.block].size) << ranks << " ranks";
          EXPECT_EQ(piece.rows, layout.blocks()[piece.block].rows) << ranks << " ranks";
          ++owners[piece.block];
        }
      }
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1)) << ranks << " ranks";
      EXPECT_EQ(values, layout.trainable_size()) << ranks << " ranks";
    }
  }
}

TEST(Shard, WholeBlocksAreCutAtTheBorderNearestToAnEvenPart) {
  const Layout layout({{"q", {64, 192}}, {"p", {64, 64}}, {"up", {64, 256}}, {"down", {256, 64}}});
  const auto cuts = [&](int ranks) {
    std::vector<std::size_t> in_squares = unit_cuts(layout, 0, ranks, true);
    for (std::size_t& cut : in_squares) cut /= 4096;
    return in_squares;
  };
  using Cuts = std::vector<std::size_t>;
  EXPECT_EQ(cuts(1), (Cuts{0, 12}));
  EXPECT_EQ(cuts(2), (Cuts{0, 8, 12}));
  EXPECT_EQ(cuts(3), (Cuts{0, 4, 8, 12}));
  EXPECT_EQ(cuts(4), (Cuts{0, 3, 8, 8, 12}));
  EXPECT_EQ(unit_cuts(Layout({{"w", {128, 64}}}), 0, 2), (Cuts{0, 4096, 8192}));
  EXPECT_EQ(unit_cuts(Layout({{"w", {128, 64}}}), 0, 2, true), (Cuts{0, 8192, 8192}));
}

TEST(Shard, StatesHaveTheDeclaredExtents) {
  const Layout layout(odd_shapes());
  const std::vector<StateSpec> specs{{"e", StateKind::own},
                                     {"c", StateKind::own, StateExtent::coefficients},
                                     {"t", StateKind::own, StateExtent::per_tile, 3},
                                     {"w", StateKind::replicated, StateExtent::whole, 5}};
  Shard shard(layout, 0, 1, specs);
  EXPECT_EQ(shard.state("e").size(), layout.trainable_size());
  EXPECT_EQ(shard.state("c").size(), shard.tiles().size() * 4096);
  EXPECT_EQ(shard.state("t").size(), shard.tiles().size() * 3);
  EXPECT_EQ(shard.state("w").size(), 5u);
  EXPECT_DEATH(shard.state("x"), "broken promise");
  EXPECT_THROW(Shard(layout, 2, 2), UsageError);
  const std::vector<StateSpec> twice{{"e"}, {"e"}};
  EXPECT_THROW(Shard(layout, 0, 1, twice), UsageError);
}

TEST(Shard, AHashChangesWithAnyReplicatedBitAndNoOther) {
  const Layout layout(odd_shapes());
  const std::vector<StateSpec> specs{{"m", StateKind::replicated}, {"r", StateKind::own}};
  Shard shard(layout, 0, 1, specs);
  const auto before = row_hashes(shard);
  shard.state("r")[0] = 1.0f;
  EXPECT_EQ(row_hashes(shard), before);
  shard.state("m")[0] = 1.0f;
  EXPECT_NE(row_hashes(shard), before);
  shard.state("m")[0] = 0.0f;
  shard.params().back() = -0.0f;
  EXPECT_NE(row_hashes(shard), before);
}

// Sites with different numbers of ranks compare, whatever the extent of their states.
TEST(Shard, HashesOfReplicatedStateDoNotDependOnTheNumberOfRanks) {
  const Layout layout({{"w", {300, 130}}, {"b", {9000}}});
  const std::vector<StateSpec> specs{{"e", StateKind::replicated},
                                     {"c", StateKind::replicated, StateExtent::coefficients},
                                     {"t", StateKind::replicated, StateExtent::per_tile, 3},
                                     {"w", StateKind::replicated, StateExtent::whole, 5}};
  std::vector<std::vector<std::uint64_t>> of_ranks;
  for (int ranks : {1, 3}) {
    std::vector<std::uint64_t> all(layout.tile_rows().size(), 0);
    std::map<std::string, float> next;  // the shards of one unit continue each other
    for (int rank = 0; rank < ranks; ++rank) {
      Shard shard(layout, rank, ranks, specs);
      for (const char* name : {"e", "c", "t"}) {
        for (float& value : shard.state(name)) value = next[name]++;
      }
      const std::vector<std::uint64_t> hashes = row_hashes(shard);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] |= hashes[i];
    }
    of_ranks.push_back(all);
  }
  EXPECT_EQ(of_ranks[0], of_ranks[1]);
}

}  // namespace
}  // namespace thinwire
