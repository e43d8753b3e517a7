// How fast the kernels are on a card, against what its memory can do: every kernel's planned bytes
// (docs/gpu_kernels.md) over its time by the device's clock, beside a copy within the device in the
// same run. One line of JSON for each; nothing but a reason where no device can be used.
//   gpu_bench [--rows N]   a matrix of N x 8192 values (8192: 67 million)
//   gpu_bench --probe      is there a device?
// Exit status 77: there is none.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/device/launch_timer.h"
#include "thinwire/device.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"
#include "thinwire/range_kernels.h"
#include "thinwire/shard.h"
#include "thinwire/tile_kernels.h"

namespace {

using namespace thinwire;
using device::LaunchTimer;

constexpr std::size_t kColumns = 8192;
constexpr int kRounds = 9;  // timed, after two that are not

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  std::vector<double> all;
  for (int round = -2; round < kRounds; ++round) {
    LaunchTimer timer;
    work();
    wait_for(Device::cuda(0));
    if (round >= 0) all.push_back(timer.seconds());
  }
  return median(all);
}

// Bytes a second that a copy moves, read and written.
double copy_bandwidth(std::size_t floats) {
  const FloatBuffer from(floats, Device::cuda(0));
  FloatBuffer to(floats, Device::cuda(0));
  const double seconds = seconds_of([&] { LaunchTimer::around([&] { copy(from, to); }); });
  return 2.0 * sizeof(float) * static_cast<double>(floats) / seconds;
}

class Bench {
 public:
  explicit Bench(std::size_t rows)
      : layout_({{"w", {rows, kColumns}}}),
        shard_(layout_, 0, 1,
               std::vector<StateSpec>{{"residual", StateKind::own, StateExtent::coefficients},
                                      {"v", StateKind::own},
                                      {"sent", StateKind::own, StateExtent::per_tile, 2 * kMost}},
               false, Device::cuda(0)),
        copy_(copy_bandwidth(shard_.params().size())) {
    std::vector<float> noise(shard_.params().size());
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : noise) value = normal(random);
    for (const Floats all : {shard_.params(), shard_.grad(), shard_.state("residual")}) {
      thinwire::copy(noise, all);
    }
  }

  void run() {
    nlohmann::json head{{"card", name_of(Device::cuda(0))}, {"copy_gb_s", copy_ / 1e9}};
    cudaDriverGetVersion(&version_);
    head["driver_cuda"] = version_;
    cudaRuntimeGetVersion(&version_);
    head["toolkit_cuda"] = version_;
    std::printf("%s\n", head.dump().c_str());
    elementwise();
    sums();
    tiles();
    matrices();
  }

 private:
  static constexpr std::size_t kMost = 32;

  void say(const std::string& name, double bytes, double seconds) const {
    const double rate = bytes / seconds;
    const nlohmann::json line{
        {"kernel", name},
        {"planned_bytes_a_parameter", bytes / static_cast<double>(shard_.params().size())},
        {"gb_s", rate / 1e9},
        {"of_copy", rate / copy_},
        {"seconds", seconds}};
    std::printf("%s\n", line.dump().c_str());
  }
  double bytes(double a_parameter) const {
    return a_parameter * static_cast<double>(shard_.params().size());
  }

  void elementwise() {
    const Floats x = shard_.params();
    const Floats g = shard_.grad();
    const Floats m = shard_.state("residual");
    const Floats v = shard_.state("v");
    say("scale_add", bytes(12), seconds_of([&] { kernels::scale_add(x, 0.9f, g, 0.1f); }));
    say("sign_step", bytes(12), seconds_of([&] { kernels::sign_step(x, 1.0f, 1e-3f, g); }));
    say("adamw", bytes(28), seconds_of([&] { kernels::adamw(x, m, v, g, {}); }));
    say("lion", bytes(20), seconds_of([&] { kernels::lion(x, m, g, {}); }));
    FloatBuffer packed((x.size() + 1) / 2, Device::cuda(0));
    say("pack_bf16", bytes(6), seconds_of([&] { kernels::pack_bf16(g, packed); }));
    say("unpack_bf16", bytes(6), seconds_of([&] { kernels::unpack_bf16(packed, v); }));
  }

  void sums() {
    const Floats g = shard_.grad();
    std::vector<ShardRange> rows;
    for (std::size_t at = 0; at < g.size(); at += kTileSide * kColumns) {
      rows.push_back({at, kTileSide * kColumns});
    }
    std::vector<double> squares(rows.size());
    std::vector<std::uint64_t> hashes(rows.size());
    say("sum_squares", bytes(4), seconds_of([&] { kernels::sum_squares(g, rows, squares); }));
    say("hash", bytes(4), seconds_of([&] { kernels::hash(g, rows, hashes); }));
    say("all_finite", bytes(4), seconds_of([&] { kernels::all_finite(g); }));
  }

  void tiles() {
    const Tiles all = shard_.tiles();
    const auto count = static_cast<double>(all.size());
    for (const int k : {8, 16, 32}) {
      const kernels::Lists lists{shard_.state("sent"), 0, 2 * kMost, kMost};
      kernels::Chosen chosen;
      const double seconds = seconds_of([&] {
        chosen = {};
        kernels::extract(all, shard_.grad(), 0, {.decay = 0.999f, .k = k}, shard_.state("residual"),
                         lists, chosen);
      });
      // Counts, positions and values that leave, and the list that is kept.
      const double coded = count * (2.0 + k * (2.0 + 4.0) + k * 8.0);
      say("extract k=" + std::to_string(k), bytes(12) + coded, seconds);
    }
    for (const int sites : {1, 4, 16}) said(all, sites);
    const std::vector<kernels::Lists> lists{{shard_.state("sent"), 0, 2 * kMost, kMost}};
    say("inverse_owed", bytes(8), seconds_of([&] {
          kernels::inverse_owed(all, shard_.state("residual"), lists, kernels::Basis::dct, 0,
                                shard_.grad());
        }));
  }

  // Of each site 16 places a tile, none twice.
  void said(Tiles all, int sites) {
    const auto picks = static_cast<std::size_t>(16 * sites);
    std::vector<std::uint32_t> begin{0};
    std::vector<std::uint16_t> positions;
    std::vector<std::int32_t> weights;
    std::mt19937 random(2);
    std::vector<std::uint16_t> places(kTileSide * kTileSide);
    std::iota(places.begin(), places.end(), std::uint16_t{0});
    std::shuffle(places.begin(), places.end(), random);
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(picks));
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t pick = 0; pick < picks; ++pick) {
        positions.push_back(places[pick]);
        weights.push_back((random() & 1u) != 0 ? 4096 / sites : -4096 / sites);
      }
      begin.push_back(static_cast<std::uint32_t>(positions.size()));
    }
    const kernels::Said said{begin, positions, weights, {}};
    const double read = static_cast<double>(positions.size()) * 6.0;
    const std::string with = " " + std::to_string(sites) + " sites";
    say("step_along" + with, bytes(8) + read, seconds_of([&] {
          kernels::step_along(all, said, {.keep = 1.0f, .rate = 1e-4f}, 0, shard_.params());
        }));
    say("inverse_said" + with, bytes(4) + read, seconds_of([&] {
          kernels::inverse_said(all, said, kernels::Basis::dct, 0, shard_.grad());
        }));
  }

  // Sums run in one order and nothing is fused: at most half of the card's 32-bit rate.
  void matrices() const {
    for (const std::size_t side : {512, 2048}) {
      FloatBuffer matrix(shard_.grad().first(side * side), Device::cuda(0));
      const double seconds = seconds_of([&] { kernels::orthogonalize(side, side, matrix); });
      const double cubed = static_cast<double>(side) * static_cast<double>(side * side);
      const nlohmann::json line{{"kernel", "orthogonalize " + std::to_string(side)},
                                {"tflop_s", 5.0 * 4.0 * cubed / seconds / 1e12},
                                {"seconds", seconds}};
      std::printf("%s\n", line.dump().c_str());
    }
  }

  Layout layout_;
  Shard shard_;
  double copy_;
  int version_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    std::size_t rows = 8192;
    if (argc == 3 && std::string(argv[1]) == "--rows") rows = std::strtoul(argv[2], nullptr, 10);
    if (!cuda_problem().empty()) {
      std::fprintf(stderr, "gpu_bench: %s\n", cuda_problem().c_str());
      return 77;
    }
    if (argc == 2 && std::string(argv[1]) == "--probe") return 0;
    Bench(std::max<std::size_t>(rows, 2048)).run();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
}
