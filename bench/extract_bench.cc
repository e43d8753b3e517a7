// What the wire costs the processor: how fast one core turns a gradient into an update.
//   pass     m = b m + g, the least any momentum method does, over the same memory;
//   extract  fold, top-k, zero what was picked, vote codes;
//   coded    extract and the codec's bytes;
//   plain    the same picks by dense matrix products, a partial sort and a dense inverse.
// Speeds only mean something against each other: all four run in turn, in one process.
#include <hwy/highway.h>
#include <time.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "src/codec/codec.h"
#include "thinwire/kernels.h"
#include "thinwire/layout.h"
#include "thinwire/shard.h"
#include "thinwire/update.h"

namespace {

using namespace thinwire;

constexpr std::size_t kColumns = 4096;
constexpr std::size_t kArea = kTileSide * kTileSide;
constexpr float kDecay = 0.999f;

struct Options {
  std::size_t keep = 8;     // coefficients of a tile
  std::size_t rows = 4096;  // of the one matrix; 16.8 M values with all of its columns
  std::size_t rounds = 7;   // timed, after one that is not
  bool avx2 = false;        // as on a machine without AVX-512
  bool json = false;
};

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void zero_and_code(Floats residual, std::span<const std::uint16_t> positions,
                   std::vector<std::uint32_t>& codes) {
  for (std::uint16_t position : positions) {
    codes.push_back(vote_code(residual[position]));
    residual[position] = 0.0f;
  }
}

// What an optimizer of one-bit votes does each step.
Update extract(std::span<const Tile> tiles, ConstFloats grad, Floats residual, std::size_t keep) {
  Update update;
  Picks& picks = update.picks;
  picks.value_bits = 1;
  picks.counts.reserve(tiles.size());
  picks.positions.resize(tiles.size() * keep);
  picks.codes.reserve(tiles.size() * keep);
  std::size_t used = 0;
  for (const Tile& tile : tiles) {
    const Floats part = residual.subspan(tile.coefficients, tile.height * tile.width);
    kernels::fold(tile, grad, kDecay, 1.0f, part);
    std::uint16_t* positions = picks.positions.data() + used;
    const std::size_t count = kernels::top_k(part, keep, positions);
    zero_and_code(part, {positions, count}, picks.codes);
    picks.counts.push_back(static_cast<std::uint16_t>(count));
    used += count;
  }
  picks.positions.resize(used);
  return update;
}

// As published: the momentum stays in values, transforms are products with the basis.
class PlainMethod {
 public:
  PlainMethod() : basis_(kTileSide, kTileSide), order_(kArea) {
    std::vector<float> unit(kTileSide, 0.0f);
    for (std::size_t u = 0; u < kTileSide; ++u) {
      unit[u] = 1.0f;
      kernels::inverse_dct(1, kTileSide, unit, {basis_.row(u).data(), kTileSide});
      unit[u] = 0.0f;
    }
  }

  void extract(const Tile& tile, ConstFloats grad, Floats momentum, std::size_t keep,
               Picks& picks) {
    using Strided = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
    using ConstStrided = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
    const Eigen::OuterStride<> stride(static_cast<Eigen::Index>(tile.stride));
    ConstStrided g(grad.data() + tile.offset, kTileSide, kTileSide, stride);
    Strided m(momentum.data() + tile.offset, kTileSide, kTileSide, stride);
    m = kDecay * m + g;
    half_.noalias() = basis_ * m;
    coefficients_.noalias() = half_ * basis_.transpose();
    std::iota(order_.begin(), order_.end(), std::uint16_t{0});
    const float* x = coefficients_.data();
    std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(keep),
                     order_.end(), [x](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
    sent_ = Matrix::Zero(kTileSide, kTileSide);
    for (std::size_t i = 0; i < keep; ++i) {
      picks.positions.push_back(order_[i]);
      picks.codes.push_back(vote_code(x[order_[i]]));
      sent_.data()[order_[i]] = x[order_[i]];
    }
    half_.noalias() = basis_.transpose() * sent_;
    m.noalias() -= half_ * basis_;
  }

 private:
  Matrix basis_, half_, coefficients_, sent_;
  std::vector<std::uint16_t> order_;
};

// Processor time of this thread: other programs on the machine must not count.
double thread_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Body>
double seconds(const Body& body) {
  const double begin = thread_seconds();
  body();
  return thread_seconds() - begin;
}

struct Times {
  double pass = 1e9;
  double extract = 1e9;
  double coded = 1e9;
  double plain = 1e9;
  std::size_t bytes = 0;  // of one coded update
};

Times measure(const Options& options) {
  const Layout layout({{.name = "weight", .shape = {options.rows, kColumns}}});
  const StateSpec residual_spec{.name = "residual", .extent = StateExtent::coefficients};
  Shard shard(layout, 0, 1, {&residual_spec, 1});
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& value : shard.grad()) value = normal(engine);
  const ConstFloats grad = shard.grad();
  const Floats residual = shard.state("residual");
  const Floats momentum = shard.params();
  const std::vector<std::uint32_t> tile_sizes(shard.tiles().size(), kArea);
  const Shape shape{.floats = grad.size(), .tile_coefficients = tile_sizes};
  PlainMethod plain;
  Times best;
  for (std::size_t round = 0; round <= options.rounds; ++round) {
    Times now;
    now.pass = seconds([&] { kernels::scale_add(momentum, kDecay, grad, 1.0f); });
    Update update;
    now.extract = seconds([&] { update = extract(shard.tiles(), grad, residual, options.keep); });
    now.coded = now.extract + seconds([&] { now.bytes = encode(update, shape).size(); });
    now.plain = seconds([&] {
      Picks picks;
      for (const Tile& tile : shard.tiles())
        plain.extract(tile, grad, momentum, options.keep, picks);
    });
    if (round == 0) continue;  // warm-up
    best = {.pass = std::min(best.pass, now.pass),
            .extract = std::min(best.extract, now.extract),
            .coded = std::min(best.coded, now.coded),
            .plain = std::min(best.plain, now.plain),
            .bytes = now.bytes};
  }
  return best;
}

// Lower bits of Highway's mask are the better targets.
std::int64_t best_target() { return hwy::SupportedAndGeneratedTargets().front(); }

std::string machine() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

void print(const Options& options, const Times& times) {
  const double values = static_cast<double>(options.rows * kColumns);
  const nlohmann::json report = {{"bench", "extract"},
                                 {"values", options.rows * kColumns},
                                 {"k", options.keep},
                                 {"target", hwy::TargetName(best_target())},
                                 {"values_per_s",
                                  {{"pass", values / times.pass},
                                   {"extract", values / times.extract},
                                   {"coded", values / times.coded},
                                   {"plain", values / times.plain}}},
                                 {"ratio_plain", times.plain / times.coded},
                                 {"ratio_pass", times.coded / times.pass},
                                 {"ratio_pass_uncoded", times.extract / times.pass},
                                 {"bytes", times.bytes},
                                 {"machine", machine()},
                                 {"compiler", __VERSION__},
                                 {"date", today()}};
  if (options.json) {
    std::printf("%s\n", report.dump().c_str());
    return;
  }
  std::printf("%zu values, k = %zu, %s on one core of %s, compiler %s, %s\n",
              options.rows * kColumns, options.keep, hwy::TargetName(best_target()),
              machine().c_str(), __VERSION__, today().c_str());
  for (const auto& [name, rate] : report["values_per_s"].items()) {
    std::printf("  %-8s %8.1f M values/s\n", name.c_str(), rate.get<double>() / 1e6);
  }
  std::printf(
      "with coding %.1f times as fast as plain, %.1f times the time of the pass (%.1f without)\n",
      times.plain / times.coded, times.coded / times.pass, times.extract / times.pass);
  std::printf("%zu bytes, %.2f bits a coefficient\n", times.bytes,
              8.0 * static_cast<double>(times.bytes * kArea) /
                  (values * static_cast<double>(options.keep)));
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      options.json = true;
      continue;
    }
    if (name == "--avx2") {
      options.avx2 = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::size_t value = std::strtoull(argv[++i], nullptr, 10);
    if (name == "--k")
      options.keep = value;
    else if (name == "--rows")
      options.rows = value;
    else if (name == "--rounds")
      options.rounds = value;
    else
      return false;
  }
  return options.keep >= 1 && options.keep < kArea && options.rows >= kTileSide &&
         options.rows % kTileSide == 0 && options.rounds >= 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(
        stderr,
        "extract_bench [--k 8] [--rows 4096 (times 4096)] [--rounds 7] [--avx2] [--json]\n");
    return 2;
  }
  if (options.avx2) hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  print(options, measure(options));
}
