// mural's update and its point of look-ahead against plain sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "optimizers/catalog.h"
#include "tests/support/random.h"

namespace thinwire::test {
namespace {

constexpr std::size_t kSide = 64;
constexpr int kPicks = 5;
constexpr double kDecay = 0.9, kLr = 0.02, kLookAhead = 2.5, kWeightDecay = 0.1;
using Coefficients = std::vector<double>;  // kSide x kSide
using Votes = std::map<std::size_t, double>;

double basis(std::size_t u, std::size_t i) {
  const double size = u == 0 ? std::sqrt(1.0 / kSide) : std::sqrt(2.0 / kSide);
  return size * std::cos(std::numbers::pi * (2.0 * i + 1.0) * u / (2.0 * kSide));
}

Coefficients turned(const Coefficients& in, bool inverse) {
  static const auto table = [] {
    std::vector<double> all(kSide * kSide);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = basis(i / kSide, i % kSide);
    return all;
  }();
  const auto b = [&](std::size_t to, std::size_t from) {
    return inverse ? table[from * kSide + to] : table[to * kSide + from];
  };
  Coefficients half(in.size()), out(in.size());
  for (std::size_t r = 0; r < kSide; ++r) {
    for (std::size_t c = 0; c < kSide; ++c) {
      for (std::size_t k = 0; k < kSide; ++k) half[r * kSide + c] += in[r * kSide + k] * b(c, k);
    }
  }
  for (std::size_t r = 0; r < kSide; ++r) {
    for (std::size_t c = 0; c < kSide; ++c) {
      for (std::size_t k = 0; k < kSide; ++k) out[r * kSide + c] += b(r, k) * half[k * kSide + c];
    }
  }
  return out;
}

// One block of the model at one site.
struct Twin {
  std::size_t rows, cols, size, offset;
  double rate;
  std::vector<Coefficients> owed = {};
  std::vector<std::deque<Votes>> in_flight = {};  // by tile, latest first: what saying took

  std::size_t grid_cols() const { return (cols + kSide - 1) / kSide; }
  std::size_t tiles() const { return (rows + kSide - 1) / kSide * grid_cols(); }

  template <class Visit>  // index in the block, place in the tile
  void values_of(std::size_t tile, Visit visit) const {
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t r = i / cols, c = i % cols;
      if (r / kSide * grid_cols() + c / kSide != tile) continue;
      visit(i, r % kSide * kSide + c % kSide);
    }
  }

  std::vector<Votes> say(ConstFloats gradient, int delay) {
    owed.resize(tiles(), Coefficients(kSide * kSide));
    in_flight.resize(tiles());
    std::vector<Votes> said(tiles());
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      Coefficients g(kSide * kSide);
      values_of(tile, [&](std::size_t i, std::size_t at) { g[at] = gradient[offset + i]; });
      const Coefficients folded = turned(g, false);
      std::vector<std::size_t> order(g.size());
      std::iota(order.begin(), order.end(), 0);
      Coefficients& e = owed[tile];
      for (std::size_t i = 0; i < e.size(); ++i) e[i] = kDecay * e[i] + folded[i];
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::fabs(e[a]) > std::fabs(e[b]);
      });
      Votes taken;
      for (int pick = 0; pick < kPicks; ++pick) {
        const std::size_t at = order[pick];
        said[tile][at] = e[at] > 0 ? 1.0 : -1.0;
        taken[at] = e[at];
        e[at] = 0.0;
      }
      in_flight[tile].push_front(taken);
      in_flight[tile].resize(std::min<std::size_t>(in_flight[tile].size(), delay));
    }
    return said;
  }

  // z over the block, with a mean square of 1.
  std::vector<double> normalised(const std::vector<Coefficients>& all) const {
    std::vector<double> z(size);
    double squares = 0.0;
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      const Coefficients values = turned(all[tile], true);
      values_of(tile, [&](std::size_t i, std::size_t at) {
        z[i] = values[at];
        squares += z[i] * z[i];
      });
    }
    for (double& value : z) value /= std::sqrt(squares / static_cast<double>(size));
    return z;
  }

  std::vector<double> unheard() const {
    std::vector<Coefficients> all = owed;
    for (std::size_t tile = 0; tile < tiles(); ++tile) {
      for (const Votes& votes : in_flight[tile]) {
        for (const auto& [at, value] : votes) all[tile][at] += value;
      }
    }
    return normalised(all);
  }
};

class Mural : public testing::TestWithParam<int> {};

TEST_P(Mural, FollowsItsFormulas) {
  const int delay = GetParam();
  const Layout layout(
      {{"hidden", {100, 70}}, {"vector", {90}}, {"table", {80, 40}, 0, true, true}});
  const std::map<std::string, std::string> given{{"signal", "sgd"},
                                                 {"momentum", "0"},
                                                 {"k", std::to_string(kPicks)},
                                                 {"decay", "0.9"},
                                                 {"look_ahead", "2.5"},
                                                 {"clip", "0"},
                                                 {"matrix_rate", "1"},
                                                 {"table_rate", "0.25"},
                                                 {"vector_rate", "3"},
                                                 {"delay", std::to_string(delay)}};
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  std::vector<Shard> shards;
  std::vector<std::vector<Twin>> twins(2);
  for (std::size_t site = 0; site < 2; ++site) {
    Settings settings("mural", given);
    optimizers.push_back(optimizer_catalog().make("mural", settings));
    shards.emplace_back(layout, 0, 1, optimizers[site]->traits().states);
    for (const Piece& piece : shards[site].pieces()) {
      const Block& block = layout.blocks()[piece.block];
      const double rate = block.hidden ? 1.0 : block.table ? 0.25 : 3.0;
      twins[site].push_back({block.rows, block.cols, block.size, piece.offset, rate});
    }
  }
  std::vector<double> x(shards[0].params().size(), 0.0);
  std::deque<std::vector<Contribution>> said;
  std::deque<std::vector<std::vector<std::vector<Votes>>>> voted;  // by step, site, block, tile
  for (std::uint64_t index = 0; index < 4; ++index) {
    const Step step{.index = index, .lr = static_cast<float>(kLr), .sites = 2, .norm = 1.0};
    said.emplace_back();
    voted.emplace_back(2);
    for (int site = 0; site < 2; ++site) {
      Shard& shard = shards[site];
      const Floats point = optimizers[site]->gradient_point(step, shard);
      for (const Twin& block : twins[site]) {
        if (index == 0) break;
        const std::vector<double> z = block.unheard();
        for (std::size_t i = 0; i < block.size; ++i) {
          const std::size_t at = block.offset + i;
          const double size = kLookAhead * kLr * block.rate;
          ASSERT_NEAR(point[at], x[at] - size * z[i], 0.01 * size) << index << " " << at;
        }
      }
      const std::vector<float> gradient = noise_vector(10 * index + site, shard.grad().size());
      std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
      for (Twin& block : twins[site]) voted.back()[site].push_back(block.say(gradient, delay));
      said.back().push_back({site, optimizers[site]->extract(step, shard)});
    }
    const bool due = index >= static_cast<std::uint64_t>(delay);
    const std::vector<Contribution> heard = due ? said[index - delay] : std::vector<Contribution>();
    for (int site = 0; site < 2; ++site) optimizers[site]->apply(step, shards[site], heard);
    for (std::size_t b = 0; b < twins[0].size(); ++b) {
      const Twin& block = twins[0][b];
      std::vector<double> z(block.size, 0.0);
      if (due) {
        std::vector<Coefficients> sums(block.tiles(), Coefficients(kSide * kSide));
        for (int site = 0; site < 2; ++site) {
          for (std::size_t tile = 0; tile < block.tiles(); ++tile) {
            for (const auto& [at, vote] : voted[index - delay][site][b][tile]) {
              sums[tile][at] += vote / 2.0;
            }
          }
        }
        z = block.normalised(sums);
      }
      for (std::size_t i = 0; i < block.size; ++i) {
        double& value = x[block.offset + i];
        value = (1.0 - kLr * kWeightDecay) * value - kLr * block.rate * z[i];
        // Votes are summed in integers: a hundredth of a step, and their own float's rounding.
        ASSERT_NEAR(shards[0].params()[block.offset + i], value,
                    0.02 * kLr * block.rate * (index + 1.0))
            << layout.blocks()[b].name << " " << i << " of step " << index;
      }
    }
    EXPECT_EQ(row_hashes(shards[0]), row_hashes(shards[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(Delays, Mural, testing::Values(0, 1, 2));

}  // namespace
}  // namespace thinwire::test
