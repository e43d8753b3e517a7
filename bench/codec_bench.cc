// Time to code one-bit votes on 8 of 4096 coefficients: `items` are tiles.
#include <benchmark/benchmark.h>

#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "tests/codec_samples.h"

namespace {

using namespace thinwire;

struct Votes {
  explicit Votes(std::int64_t tile_count) : tiles(static_cast<std::size_t>(tile_count), 4096) {
    test::Rng rng(1);
    update = test::uniform_update(rng, tiles, 8, 1);
  }
  Shape shape() const { return {0, tiles}; }

  std::vector<std::uint32_t> tiles;
  Update update;
};

void encode_votes(benchmark::State& state) {
  const Votes votes(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(encode(votes.update, votes.shape()));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void decode_votes(benchmark::State& state) {
  const Votes votes(state.range(0));
  const Bytes bytes = encode(votes.update, votes.shape());
  for (auto _ : state) benchmark::DoNotOptimize(decode(bytes, votes.shape()));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void seal_votes(benchmark::State& state) {
  const Votes votes(state.range(0));
  const Bytes bytes = encode(votes.update, votes.shape());
  for (auto _ : state) benchmark::DoNotOptimize(seal({}, bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}

}  // namespace

BENCHMARK(encode_votes)->Arg(16)->Arg(256)->Arg(4096);
BENCHMARK(decode_votes)->Arg(16)->Arg(256)->Arg(4096);
BENCHMARK(seal_votes)->Arg(4096);
BENCHMARK_MAIN();
