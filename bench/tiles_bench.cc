// What the transforms of one 64 x 64 tile cost, in each basis. `--benchmark_format=json` for JSON.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "thinwire/kernels.h"

namespace {

using namespace thinwire;
using kernels::Basis;

constexpr std::size_t kSide = 64;
constexpr std::size_t kArea = kSide * kSide;
constexpr Tile kTile{.offset = 0,
                     .stride = kSide,
                     .rows = kSide,
                     .cols = kSide,
                     .tail = 0,
                     .height = kSide,
                     .width = kSide,
                     .coefficients = 0};

std::vector<float> normal_floats() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kArea);
  for (float& value : values) value = normal(engine);
  return values;
}

// One vote for and against, at places far from each other.
struct Votes {
  explicit Votes(std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      positions.push_back(static_cast<std::uint16_t>(k * (kArea / count)));
      weights.push_back(k % 2 == 0 ? 4096 : -4096);
    }
  }
  std::vector<std::uint16_t> positions;
  std::vector<std::int32_t> weights;
};

Basis basis_of(const benchmark::State& state) { return static_cast<Basis>(state.range(0)); }

void BM_fold(benchmark::State& state) {
  const auto values = normal_floats();
  std::vector<float> residual(kArea);
  for (auto _ : state) kernels::fold(kTile, values, 0.9f, 1.0f, residual, basis_of(state));
}

void BM_inverse(benchmark::State& state) {
  const auto in = normal_floats();
  std::vector<float> out(kArea);
  for (auto _ : state) kernels::inverse(kSide, kSide, in, out, basis_of(state));
}

void BM_inverse_fast(benchmark::State& state) {
  const auto in = normal_floats();
  std::vector<float> out(kArea);
  for (auto _ : state) kernels::inverse_fast(kTile, in, out, basis_of(state));
}

void BM_inverse_votes(benchmark::State& state) {
  const Votes votes(32);
  std::vector<float> out(kArea);
  for (auto _ : state)
    kernels::inverse_votes(kTile, votes.positions, votes.weights, out, basis_of(state));
}

void BM_inverse_votes_amplitude(benchmark::State& state) {
  const Votes votes(32);
  std::vector<float> out(kArea);
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::inverse_votes_amplitude(kTile, votes.positions, votes.weights,
                                                              out, basis_of(state)));
  }
}

void in_each_basis(benchmark::internal::Benchmark* bench) {
  bench->ArgName("basis_dct0_hadamard1_none2");
  for (Basis basis : {Basis::dct, Basis::hadamard, Basis::none}) {
    bench->Arg(static_cast<int>(basis));
  }
}

BENCHMARK(BM_fold)->Apply(in_each_basis);
BENCHMARK(BM_inverse)->Apply(in_each_basis);
BENCHMARK(BM_inverse_fast)->Apply(in_each_basis);
BENCHMARK(BM_inverse_votes)->Apply(in_each_basis);
BENCHMARK(BM_inverse_votes_amplitude)->Apply(in_each_basis);

}  // namespace

BENCHMARK_MAIN();
