// The forward transform against the published reference and against the definition in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/golden.h"
#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::exact_transform;
using testing_support::for_each_target;
using testing_support::kSampleValues;
using testing_support::normal_floats;
using testing_support::padded_values;
using testing_support::sample_tiles;
using testing_support::whole_tile;

struct Size {
  std::size_t height;
  std::size_t width;
};

std::vector<float> dct_of(Size size, const std::vector<float>& in) {
  std::vector<float> out(in.size());
  kernels::dct(size.height, size.width, in, out);
  return out;
}

template <typename A, typename B>
double largest_difference(const A& a, const B& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                     : std::max(largest, difference);
  }
  return largest;
}

// One chunk of a golden transform: the tile it is and its index in the encoded arrays.
struct Chunk {
  Tile tile;
  std::size_t index;
};

std::vector<Chunk> chunks_of(const golden::Case& one) {
  std::vector<std::size_t> shape = one["shape"];
  std::vector<std::size_t> side = one["chunk_actual"];
  if (shape.size() == 1) {  // a vector is cut into chunks of one row
    shape = {shape[0] / side[0], side[0]};
    side = {1, side[0]};
  }
  if (shape.size() == 3) shape = {shape[0] * shape[1], shape[2]};  // slices follow one another
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < shape[0]; i += side[0]) {
    for (std::size_t j = 0; j < shape[1]; j += side[1]) {
      chunks.push_back({.tile = {.offset = i * shape[1] + j,
                                 .stride = shape[1],
                                 .rows = side[0],
                                 .cols = side[1],
                                 .height = side[0],
                                 .width = side[1]},
                        .index = chunks.size()});
    }
  }
  return chunks;
}

std::vector<float> folded(const Tile& tile, const std::vector<float>& values) {
  std::vector<float> residual(tile.height * tile.width, 0.0f);
  kernels::fold(tile, values, 1.0f, 1.0f, residual);
  return residual;
}

TEST(Dct, HasTheGoldenBasis) {
  for (const golden::Case& one : golden::cases_of_kind("dct_basis")) {
    const std::size_t n = one["n"];
    const auto reference = one.floats("forward_f32").data;
    const auto exact = one.doubles("exact_f64").data;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<float> unit(n, 0.0f);
      unit[i] = 1.0f;
      const std::vector<float> column = dct_of({n, 1}, unit);
      for (std::size_t u = 0; u < n; ++u) {
        EXPECT_NEAR(column[u], exact[u * n + i], 6e-8) << n << " " << u << " " << i;
        EXPECT_NEAR(column[u], reference[i * n + u], 2e-7);
      }
      EXPECT_EQ(dct_of({1, n}, unit), column);
    }
  }
}

TEST(Dct, EncodesAsTheReferenceDoes) {
  for (const char* kind : {"transform", "transform_nd"}) {
    for (const golden::Case& one : golden::cases_of_kind(kind)) {
      SCOPED_TRACE(one["id"].get<std::string>());
      const auto values = one.floats("input").data;
      const auto encoded = one.floats("encoded_f32").data;
      std::vector<float> ours;
      for (const Chunk& chunk : chunks_of(one)) {
        const auto coefficients = folded(chunk.tile, values);
        ours.insert(ours.end(), coefficients.begin(), coefficients.end());
      }
      EXPECT_LT(largest_difference(ours, encoded), 1e-5);
      if (one["files"].contains("encoded_f64")) {
        EXPECT_LT(largest_difference(ours, one.doubles("encoded_f64").data), 2e-6);
      }
    }
  }
}

void expect_golden_picks(const golden::Case& one, const nlohmann::json& entry) {
  const auto values = one.floats("input").data;
  const auto positions = golden::load<std::int32_t>(entry.at("idx"));
  const auto picked = golden::load<float>(entry.at("val"));
  const std::size_t k = positions.shape.back();
  const std::size_t wanted = entry.at("k");
  std::vector<float> decoded(values.size(), 0.0f);
  for (const Chunk& chunk : chunks_of(one)) {
    const auto coefficients = folded(chunk.tile, values);
    std::vector<std::uint16_t> ours(wanted);
    ASSERT_EQ(kernels::top_k(coefficients, wanted, ours.data()), k);
    ours.resize(k);
    std::vector<float> kept(k);
    for (std::size_t i = 0; i < k; ++i) {
      kept[i] = coefficients[ours[i]];
      EXPECT_EQ(ours[i], positions.data[chunk.index * k + i]);
      EXPECT_NEAR(kept[i], picked.data[chunk.index * k + i], 1e-5);
    }
    kernels::inverse_sparse(chunk.tile, {.positions = ours, .values = kept}, decoded);
  }
  if (entry.contains("decoded")) {
    EXPECT_LT(largest_difference(decoded, golden::load<float>(entry.at("decoded")).data), 1e-5);
  }
}

TEST(Dct, PicksAndDecodesWhatTheReferencePicks) {
  for (const golden::Case& one : golden::cases_of_kind("transform")) {
    for (const nlohmann::json& entry : one["topk"]) {
      SCOPED_TRACE(one["id"].get<std::string>() + " k = " + entry.at("k").dump());
      expect_golden_picks(one, entry);
    }
  }
  for (const golden::Case& one : golden::cases_of_kind("transform_nd")) {
    nlohmann::json entry = one["files"];
    entry["k"] = one["k"];
    expect_golden_picks(one, entry);
  }
}

TEST(Dct, IsExactToTwoMillionthsForEveryTarget) {
  const Size sizes[] = {{64, 64}, {64, 1}, {1, 64}, {32, 48}, {13, 7},  {1, 26}, {63, 61},
                        {2, 3},   {1, 1},  {4, 48}, {40, 62}, {64, 10}, {7, 64}};
  for_each_target([&](const std::string& target) {
    for (const Size size : sizes) {
      const auto in = normal_floats(size.height * size.width, 5);
      EXPECT_LT(largest_difference(dct_of(size, in), exact_transform(size.height, size.width, in)),
                2e-6)
          << target << " " << size.height << " x " << size.width;
    }
    for (unsigned seed = 0; seed < 20; ++seed) {
      const auto in = normal_floats(64 * 64, seed);
      EXPECT_LT(largest_difference(dct_of({64, 64}, in), exact_transform(64, 64, in)), 2e-6)
          << target;
    }
  });
}

TEST(Dct, IsUndoneByItsInverseForEveryLength) {
  for (std::size_t n = 1; n <= 64; ++n) {
    const Size size{n, 65 - n};
    const auto in = normal_floats(size.height * size.width, 6);
    const auto coefficients = dct_of(size, in);
    std::vector<float> back(in.size());
    kernels::inverse_dct(size.height, size.width, coefficients, back);
    EXPECT_LT(largest_difference(back, in), 4e-6) << n;
  }
}

TEST(Fold, AddsTheTransformOfThePaddedTile) {
  const auto values = normal_floats(kSampleValues, 7);
  for_each_target([&](const std::string& target) {
    for (const Tile& tile : sample_tiles()) {
      const auto before = normal_floats(tile.height * tile.width, 8);
      auto residual = before;
      kernels::fold(tile, values, 0.75f, 0.5f, residual);
      const auto expected = exact_transform(tile.height, tile.width, padded_values(tile, values));
      for (std::size_t i = 0; i < residual.size(); ++i) {
        ASSERT_NEAR(residual[i], 0.75 * before[i] + 0.5 * expected[i], 2e-6)
            << target << " " << tile.height << " x " << tile.width << " at " << i;
      }
    }
  });
}

TEST(Fold, DoesNotReadBesideTheTile) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto random = normal_floats(kSampleValues, 9);
  for (const Tile& tile : sample_tiles()) {
    std::vector<float> values(kSampleValues, nan);
    for (std::size_t i = 0; i <= tile.rows; ++i) {
      const std::size_t begin = tile.offset + i * tile.stride;
      const std::size_t count = i < tile.rows ? tile.cols : tile.tail;
      std::copy_n(random.begin() + begin, count, values.begin() + begin);
    }
    EXPECT_EQ(folded(tile, values), folded(tile, random));
  }
}

}  // namespace
}  // namespace thinwire
