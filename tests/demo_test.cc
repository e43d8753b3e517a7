// DeMo and DisTrO against the published reference (tests/golden) and their own promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optimizers/distro.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

std::vector<std::size_t> shape_of(const golden::Case& golden) {
  return golden["shape"].get<std::vector<std::size_t>>();
}

// One worker's optimizer and shard on the case's single parameter, cut by the published rule.
struct Worker {
  Worker(const golden::Case& golden, Demo::Options options)
      : layout({{"p", shape_of(golden)}}, Chunking::divisor),
        optimizer(options),
        shard(layout, 0, 1, optimizer.traits().states) {
    const std::vector<float> init = golden.floats("param_init").data;
    std::copy(init.begin(), init.end(), shard.params().begin());
  }
  Layout layout;
  Demo optimizer;
  Shard shard;
};

// Step `t` of worker `w` in an array of [steps][workers][...].
std::span<const float> slice(const golden::Array<float>& array, std::size_t t, std::size_t w,
                             std::size_t size) {
  return std::span(array.data).subspan((t * array.shape[1] + w) * size, size);
}

// The inverse transform of what was combined, before the sign, by the float64 definition.
std::vector<double> decode_mean(const Worker& worker, std::span<const Contribution> heard) {
  std::vector<double> decoded(worker.shard.params().size(), 0.0);
  std::vector<std::size_t> next(heard.size(), 0);
  for (std::size_t t = 0; t < worker.shard.tiles().size(); ++t) {
    const Tile& tile = worker.shard.tiles()[t];
    std::vector<double> sum(tile.height * tile.width, 0.0);
    std::vector<int> count(sum.size(), 0);
    for (std::size_t s = 0; s < heard.size(); ++s) {
      const Picks& picks = heard[s].update.picks;
      for (int i = 0; i < picks.counts[t]; ++i, ++next[s]) {
        const std::uint32_t code = picks.codes[next[s]];
        sum[picks.positions[next[s]]] += picks.value_bits == 1 ? vote_of(code) : float_of(code);
        ++count[picks.positions[next[s]]];
      }
    }
    const auto basis = [](std::size_t n, std::size_t u, std::size_t i) {
      return std::sqrt((u == 0 ? 1.0 : 2.0) / n) * std::cos(M_PI * (2 * i + 1) * u / (2.0 * n));
    };
    for (std::size_t u = 0; u < tile.height; ++u) {
      for (std::size_t v = 0; v < tile.width; ++v) {
        const std::size_t j = u * tile.width + v;
        if (count[j] == 0) continue;
        for (std::size_t y = 0; y < tile.rows; ++y) {
          for (std::size_t x = 0; x < tile.cols; ++x) {
            decoded[tile.offset + y * tile.stride + x] +=
                sum[j] / count[j] * basis(tile.height, u, y) * basis(tile.width, v, x);
          }
        }
      }
    }
  }
  return decoded;
}

// Compares what was decoded in step `t` with the reference's mean, and marks the values whose mean
// is below `floor` of the largest: their sign is rounding noise.
void expect_mean(const std::vector<double>& decoded, const golden::Array<float>& means,
                 std::size_t t, float floor, std::vector<bool>& noise) {
  const auto mean = std::span(means.data).subspan(t * decoded.size(), decoded.size());
  float largest = 0.0f;
  for (float value : mean) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    ASSERT_NEAR(decoded[i], mean[i], 1e-5 * std::max(1.0f, largest));
    noise[i] = noise[i] || std::abs(mean[i]) < floor * largest;
  }
}

class GoldenDemo : public testing::TestWithParam<std::string> {};

// Index sets equal, decoded mean within 1e-5, parameters equal where the reference's own mean is
// not rounding noise (below 1e-6 of its maximum).
TEST_P(GoldenDemo, FollowsThePublishedReferenceStepByStep) {
  const golden::Case golden = golden::case_of(GetParam());
  const std::size_t workers = golden["workers"];
  const std::size_t steps = golden["steps"];
  const std::size_t k = golden["k"];
  Demo::Options options;
  options.k = static_cast<int>(k);
  options.decay = golden["decay"];
  options.weight_decay = golden["weight_decay"];
  options.clip = 0.0f;
  std::vector<std::unique_ptr<Worker>> all;
  for (std::size_t w = 0; w < workers; ++w)
    all.push_back(std::make_unique<Worker>(golden, options));
  const std::size_t size = all[0]->shard.params().size();
  const auto grads = golden.floats("grads");
  const auto idx = golden.ints("idx");
  const auto means = golden.floats("mean_decoded_before_sign");
  const std::size_t per_step = idx.data.size() / steps / workers;
  std::vector<bool> noise(size, false);

  for (std::size_t t = 0; t < steps; ++t) {
    const Step step{.index = t, .lr = golden["lr"], .sites = static_cast<int>(workers)};
    std::vector<Contribution> heard;
    for (std::size_t w = 0; w < workers; ++w) {
      const auto gradient = slice(grads, t, w, size);
      std::copy(gradient.begin(), gradient.end(), all[w]->shard.grad().begin());
      heard.push_back({static_cast<int>(w), all[w]->optimizer.extract(step, all[w]->shard)});
      const auto expected = std::span(idx.data).subspan((t * workers + w) * per_step, per_step);
      const std::vector<std::uint16_t>& positions = heard.back().update.picks.positions;
      ASSERT_TRUE(std::equal(positions.begin(), positions.end(), expected.begin(), expected.end()))
          << "step " << t << " worker " << w;
    }
    expect_mean(decode_mean(*all[0], heard), means, t, 1e-6f, noise);
    ASSERT_FALSE(HasFatalFailure());
    for (auto& worker : all) worker->optimizer.apply(step, worker->shard, heard);
  }
  const std::vector<float> expected = golden.floats("param_after_last").data;
  for (std::size_t i = 0; i < size; ++i) {
    if (!noise[i]) {
      ASSERT_NEAR(all[0]->shard.params()[i], expected[i], 2e-6) << i;
    }
    for (auto& worker : all) ASSERT_EQ(worker->shard.params()[i], all[0]->shard.params()[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, GoldenDemo,
                         testing::Values("demo_64x64_N1_T1_k8", "demo_64x64_N3_T3_k32",
                                         "demo_96x80_N3_T3_k8", "demo_130_N3_T4_k4",
                                         "demo_10_N3_T4_k32", "demo_64_N1_T5_k8",
                                         "demo_65x7_N3_T5_k8", "demo_65x7_N3_T3_k1"));

class GoldenDistro : public testing::TestWithParam<std::string> {};

// Delay 1 with the look-ahead: the deployed order subtracts what was said a round later; adding
// what is in flight to our residual gives the same point.
TEST_P(GoldenDistro, FollowsTheDeployedScheduleWithDelay) {
  const golden::Case golden = golden::case_of(GetParam());
  const std::size_t workers = golden["workers"];
  const std::size_t steps = golden["steps"];
  Demo::Options options = distro(1);
  options.k = golden["k"];
  options.bits = golden["one_bit"].get<bool>() ? 1 : 32;
  options.decay = golden["decay"];
  options.weight_decay = golden["weight_decay"];
  options.clip = 0.0f;
  std::vector<std::unique_ptr<Worker>> all;
  for (std::size_t w = 0; w < workers; ++w)
    all.push_back(std::make_unique<Worker>(golden, options));
  const std::size_t size = all[0]->shard.params().size();
  const auto grads = golden.floats("grads");
  const auto idx = golden.ints("idx");
  const auto means = golden.floats("mean_decoded_before_sign");
  const auto look = golden.floats("lookahead_point_last");
  const std::size_t per_step = idx.data.size() / steps / workers;
  std::vector<bool> noise(size, false);
  std::vector<Contribution> in_flight;

  for (std::size_t t = 0; t < steps; ++t) {
    const Step step{.index = t, .lr = golden["lr"], .sites = static_cast<int>(workers)};
    std::vector<Contribution> said;
    for (std::size_t w = 0; w < workers; ++w) {
      Worker& worker = *all[w];
      const Floats point = worker.optimizer.gradient_point(step, worker.shard);
      if (t + 1 == steps) {
        int off = 0;
        for (std::size_t i = 0; i < size; ++i) {
          off += !noise[i] && std::abs(point[i] - look.data[w * size + i]) > 2e-6f ? 1 : 0;
        }
        // Where the residual's inverse is rounding noise its sign is nobody's; that is rare.
        EXPECT_LE(off, static_cast<int>(size / 200)) << "worker " << w;
      }
      const auto gradient = slice(grads, t, w, size);
      std::copy(gradient.begin(), gradient.end(), worker.shard.grad().begin());
      said.push_back({static_cast<int>(w), worker.optimizer.extract(step, worker.shard)});
      const auto expected = std::span(idx.data).subspan((t * workers + w) * per_step, per_step);
      const std::vector<std::uint16_t>& positions = said.back().update.picks.positions;
      ASSERT_TRUE(std::equal(positions.begin(), positions.end(), expected.begin(), expected.end()))
          << "step " << t << " worker " << w;
    }
    // Fixed-point votes have an error of their own: 1e-3 of the maximum (docs/numerics.md).
    expect_mean(decode_mean(*all[0], said), means, t, options.bits == 1 ? 2e-3f : 1e-6f, noise);
    ASSERT_FALSE(HasFatalFailure());
    for (auto& worker : all) worker->optimizer.apply(step, worker->shard, in_flight);
    in_flight = std::move(said);
  }
  // The last round closes after training; weight decay belongs to steps, so it is off now.
  options.weight_decay = 0.0f;
  const Step closing{.index = steps, .lr = golden["lr"], .sites = static_cast<int>(workers)};
  for (auto& worker : all) Demo(options).apply(closing, worker->shard, in_flight);
  const std::vector<float> expected = golden.floats("param_final_worker0").data;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!noise[i]) {
      ASSERT_NEAR(all[0]->shard.params()[i], expected[i], 2e-6) << i;
    }
    compared += noise[i] ? 0 : 1;
    for (auto& worker : all) ASSERT_EQ(worker->shard.params()[i], all[0]->shard.params()[i]);
  }
  EXPECT_GT(compared, size * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(Deployed, GoldenDistro,
                         testing::Values("psyche_32x48_N3_T4_k4_1bit",
                                         "psyche_65x7_N3_T4_k8_full"));

// The promise of the house: nothing that meets the residual is lost, to the bit.
TEST(Demo, SentPlusKeptIsTheMomentumExactly) {
  for (int bits : {1, 32}) {
    for (int k : {1, 8, 4096}) {
      Demo::Options options{.k = k, .bits = bits, .clip = 0.0f, .delay = 1};
      Demo optimizer(options);
      const Layout layout({{"m", {130, 70}}, {"v", {500}}});
      Shard shard(layout, 0, 1, optimizer.traits().states);
      for (std::uint64_t index = 0; index < 5; ++index) {
        const std::vector<float> gradient = test::noise_vector(index, shard.grad().size());
        std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
        // The momentum as it is before anything is sent.
        std::vector<float> momentum(shard.state("residual").begin(), shard.state("residual").end());
        for (const Tile& tile : shard.tiles()) {
          kernels::fold(tile, shard.grad(), options.decay, 0.01f,
                        Floats(momentum).subspan(tile.coefficients, 4096));
        }
        const Update said = optimizer.extract({.index = index, .lr = 0.01f}, shard);
        const ConstFloats kept = shard.state("residual");
        std::vector<float> sum(kept.begin(), kept.end());
        optimizer.take_back({.index = index}, shard, said);
        EXPECT_TRUE(std::equal(momentum.begin(), momentum.end(), shard.state("residual").begin()))
            << "taken back, bits " << bits << " k " << k;
        // And nothing was both sent and kept.
        std::size_t next = 0;
        for (std::size_t t = 0; t < shard.tiles().size(); ++t) {
          for (int i = 0; i < said.picks.counts[t]; ++i, ++next) {
            const std::size_t at = shard.tiles()[t].coefficients + said.picks.positions[next];
            EXPECT_EQ(sum[at], 0.0f);
            if (bits == 32) {
              EXPECT_EQ(float_of(said.picks.codes[next]), momentum[at]);
            } else {
              EXPECT_EQ(vote_of(said.picks.codes[next]) < 0, momentum[at] < 0);
            }
          }
        }
      }
    }
  }
}

// A step whose gradient is not finite extracts nothing: what was said in the step that used the
// same slot before has been heard and is no longer in flight.
TEST(Demo, AfterASkippedStepItLooksAheadByNothingThatWasHeard) {
  Demo optimizer({.k = 4096, .clip = 0.0f, .delay = 1, .look_ahead = 1.0f});
  const Layout layout({{"m", {64, 64}}});
  Shard shard(layout, 0, 1, optimizer.traits().states);
  const std::vector<float> gradient = test::noise_vector(3, 4096);
  std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
  std::vector<Contribution> heard;
  heard.push_back({0, optimizer.extract({.index = 0, .lr = 0.1f}, shard)});
  optimizer.apply({.index = 0, .lr = 0.1f}, shard, {});
  EXPECT_NE(optimizer.gradient_point({.index = 1, .lr = 0.1f}, shard)[0], shard.params()[0]);
  std::fill(shard.grad().begin(), shard.grad().end(), 0.0f);
  EXPECT_TRUE(optimizer.extract({.index = 1, .lr = 0.1f}, shard).empty());
  optimizer.apply({.index = 1, .lr = 0.1f}, shard, heard);
  optimizer.apply({.index = 2, .lr = 0.1f}, shard, {});  // its gradient was skipped
  const ConstFloats point = optimizer.gradient_point({.index = 3, .lr = 0.1f}, shard);
  EXPECT_TRUE(std::equal(point.begin(), point.end(), shard.params().begin()));
}

TEST(Demo, SaysNothingOfATileThatIsZero) {
  Demo optimizer(distro(0));
  const Layout layout({{"m", {64, 128}}});
  Shard shard(layout, 0, 1, optimizer.traits().states);
  shard.grad()[0] = 1.0f;  // the second tile stays zero
  std::vector<Contribution> heard;
  heard.push_back({0, optimizer.extract({.lr = 0.1f}, shard)});
  EXPECT_EQ(heard[0].update.picks.counts, (std::vector<std::uint16_t>{8, 0}));
  optimizer.apply({.lr = 0.1f}, shard, heard);
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t col = 64; col < 128; ++col) EXPECT_EQ(shard.params()[row * 128 + col], 0.0f);
  }
}

TEST(Demo, WithEverythingSentAndOneSiteItIsSignDescent) {
  Demo optimizer({.k = 4096, .decay = 0.5f, .clip = 0.0f});
  const Layout layout({{"m", {64, 64}}});
  Shard shard(layout, 0, 1, optimizer.traits().states);
  const std::vector<float> gradient = test::noise_vector(3, 4096);
  std::copy(gradient.begin(), gradient.end(), shard.grad().begin());
  std::vector<Contribution> heard;
  heard.push_back({0, optimizer.extract({.lr = 0.1f}, shard)});
  optimizer.apply({.lr = 0.1f}, shard, heard);
  for (std::size_t i = 0; i < 4096; ++i) {
    if (std::abs(gradient[i]) > 1e-4f) {
      EXPECT_EQ(shard.params()[i], gradient[i] > 0 ? -0.1f : 0.1f);
    }
  }
  for (float kept : shard.state("residual")) EXPECT_EQ(kept, 0.0f);
}

TEST(Demo, ClipsTheGradientOfTheSiteByItsGlobalNorm) {
  const Layout layout({{"m", {64, 64}}});
  std::vector<std::vector<float>> residuals;
  for (double norm : {0.5, 4.0}) {
    Demo optimizer({.k = 1, .clip = 1.0f});
    Shard shard(layout, 0, 1, optimizer.traits().states);
    std::fill(shard.grad().begin(), shard.grad().end(), 1.0f);
    const Update said = optimizer.extract({.lr = 0.5f, .norm = norm}, shard);
    EXPECT_NEAR(float_of(said.picks.codes[0]), norm > 1 ? 8.0f : 32.0f, 1e-5);
  }
}

TEST(Demo, RefusesSettingsThatMakeNoSense) {
  EXPECT_THROW(Demo({.k = 0}), UsageError);
  EXPECT_THROW(Demo({.k = 4097}), UsageError);
  EXPECT_THROW(Demo({.bits = 2}), UsageError);
  EXPECT_THROW(Demo({.decay = 1.1f}), UsageError);
  EXPECT_THROW(Demo({.subtract = 0.0f}), UsageError);
  EXPECT_THROW(Demo({.bits = 1, .follow = Follow::linear}), UsageError);
  EXPECT_THROW(Demo({.delay = 9}), UsageError);
  EXPECT_THROW(Demo({.delay = -1}), UsageError);
}

}  // namespace
}  // namespace thinwire
