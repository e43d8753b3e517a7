// How fast orthogonalize is, against two limits measured beside it in the same process:
//   mul_add  independent multiplications and additions in registers: no product that rounds each
//            operation on its own can be faster;
//   eigen    the same products by Eigen, free to fuse and to order its sums.
// Speeds count the operations done: two of the three products of an iteration are symmetric, and of
// those only the upper triangle (in tiles of 32) is computed. Eigen computes all and is timed as
// is.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/orthogonalize_bench.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <time.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace limits {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 12 chains of a multiplication and an addition: enough to be busy all the time, and few enough for
// 16 registers. They begin with different numbers, or the compiler would make them one. Returns the
// number of operations.
double MulAdds(const float* start, std::size_t rounds, float* result) {
  const hn::CappedTag<float, 16> w;
  const auto factor = hn::LoadU(w, start), term = hn::LoadU(w, start + 1);
  const float* s = start + 2;
  auto a = hn::LoadU(w, s), b = hn::LoadU(w, s + 1), c = hn::LoadU(w, s + 2);
  auto d = hn::LoadU(w, s + 3), e = hn::LoadU(w, s + 4), f = hn::LoadU(w, s + 5);
  auto g = hn::LoadU(w, s + 6), h = hn::LoadU(w, s + 7), i = hn::LoadU(w, s + 8);
  auto j = hn::LoadU(w, s + 9), k = hn::LoadU(w, s + 10), l = hn::LoadU(w, s + 11);
  for (std::size_t round = 0; round < rounds; ++round) {
    a = hn::Add(hn::Mul(a, factor), term);
    b = hn::Add(hn::Mul(b, factor), term);
    c = hn::Add(hn::Mul(c, factor), term);
    d = hn::Add(hn::Mul(d, factor), term);
    e = hn::Add(hn::Mul(e, factor), term);
    f = hn::Add(hn::Mul(f, factor), term);
    g = hn::Add(hn::Mul(g, factor), term);
    h = hn::Add(hn::Mul(h, factor), term);
    i = hn::Add(hn::Mul(i, factor), term);
    j = hn::Add(hn::Mul(j, factor), term);
    k = hn::Add(hn::Mul(k, factor), term);
    l = hn::Add(hn::Mul(l, factor), term);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, d)), hn::Add(e, f));
  const auto other = hn::Add(hn::Add(hn::Add(g, h), hn::Add(i, j)), hn::Add(k, l));
  hn::StoreU(hn::Add(sum, other), w, result);
  return 24.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(w));
}

}  // namespace HWY_NAMESPACE
}  // namespace limits
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace limits {
HWY_EXPORT(MulAdds);
double mul_adds(const float* start, std::size_t rounds, float* result) {
  return HWY_DYNAMIC_DISPATCH(MulAdds)(start, rounds, result);
}
}  // namespace limits

namespace {

using namespace thinwire;

struct Size {
  std::size_t rows;
  std::size_t cols;
};
constexpr Size kSizes[] = {{64, 64}, {64, 192}, {128, 128}, {128, 384}, {128, 512}, {512, 2048}};
constexpr int kIterations = 5;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Processor time of this thread: other programs on the machine must not count.
double thread_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The fastest of `rounds`, after one that does not count.
template <class Prepare, class Body>
double seconds(int rounds, const Prepare& prepare, const Body& body) {
  double best = 1e9;
  for (int round = 0; round <= rounds; ++round) {
    prepare();
    const double begin = thread_seconds();
    body();
    if (round > 0) best = std::min(best, thread_seconds() - begin);
  }
  return best;
}

// Of one iteration with full products, and with half of the symmetric ones.
double all_operations(Size size) {
  const auto m = static_cast<double>(size.rows), n = static_cast<double>(size.cols);
  return 2 * (m * m * n + m * m * m + m * m * n);
}
double operations_done(Size size) {
  const auto m = static_cast<double>(size.rows), n = static_cast<double>(size.cols);
  const double triangle = m * (m + 32) / 2;
  return 2 * (triangle * n + triangle * m + m * m * n);
}

double ours(Size size, int rounds) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> start(size.rows * size.cols);
  for (float& value : start) value = normal(engine);
  std::vector<float> matrix;
  return seconds(
      rounds, [&] { matrix = start; },
      [&] { kernels::orthogonalize(size.rows, size.cols, matrix, kIterations); });
}

double eigens(Size size, int rounds) {
  const auto m = static_cast<Eigen::Index>(size.rows), n = static_cast<Eigen::Index>(size.cols);
  const Matrix start = Matrix::Random(m, n);
  Matrix x(m, n), next(m, n), gram(m, m), square(m, m);
  return seconds(
      rounds, [&] { x = start; },
      [&] {
        x /= x.norm() + 1e-7f;
        for (int i = 0; i < kIterations; ++i) {
          gram.noalias() = x * x.transpose();
          square.noalias() = gram * gram;
          square = -4.7750f * gram + 2.0315f * square;
          next.noalias() = square * x;
          x = 3.4445f * x + next;
        }
      });
}

// Operations per second in registers.
double register_limit(int rounds) {
  constexpr std::size_t kLoops = 1 << 20;
  const std::vector<float> start(32, 1.0f);
  float result[16];
  double operations = 0.0;
  const double fastest = seconds(
      rounds, [] {}, [&] { operations = limits::mul_adds(start.data(), kLoops, result); });
  return operations / fastest;
}

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

nlohmann::json measure(int rounds) {
  // Lower bits of Highway's mask are the better targets.
  const std::int64_t target = hwy::SupportedAndGeneratedTargets().front();
  nlohmann::json report = {{"bench", "orthogonalize"},
                           {"target", hwy::TargetName(target)},
                           {"machine", machine()},
                           {"compiler", __VERSION__},
                           {"date", today()},
                           {"eigen", Eigen::SimdInstructionSetsInUse()},
                           {"sizes", nlohmann::json::array()}};
  double limit = 0.0;
  for (const Size size : kSizes) {
    limit = std::max(limit, register_limit(rounds));
    const double own = ours(size, rounds);
    const double eigen = eigens(size, rounds);
    report["sizes"].push_back({{"rows", size.rows},
                               {"cols", size.cols},
                               {"ms", 1e3 * own},
                               {"gflops", kIterations * operations_done(size) / own / 1e9},
                               {"eigen_ms", 1e3 * eigen},
                               {"eigen_gflops", kIterations * all_operations(size) / eigen / 1e9},
                               {"ratio_eigen", eigen / own}});
  }
  report["mul_add_gflops"] = limit / 1e9;
  for (nlohmann::json& row : report["sizes"]) {
    row["ratio_limit"] = row["gflops"].get<double>() * 1e9 / limit;
  }
  return report;
}

void print(const nlohmann::json& report) {
  const auto text = [&](const char* name) { return report[name].get<std::string>(); };
  std::printf("%s on one core of %s, compiler %s, %s; Eigen with %s\n", text("target").c_str(),
              text("machine").c_str(), text("compiler").c_str(), text("date").c_str(),
              text("eigen").c_str());
  std::printf("Mul + Add in registers: %.1f GFLOP/s\n", report["mul_add_gflops"].get<double>());
  for (const nlohmann::json& row : report["sizes"]) {
    const auto number = [&](const char* name) { return row[name].get<double>(); };
    std::printf(
        "  %4d x %4d: %8.3f ms, %6.1f GFLOP/s, %.2f of the limit; Eigen %8.3f ms, %6.1f GFLOP/s; "
        "%.2f times as fast as Eigen\n",
        row["rows"].get<int>(), row["cols"].get<int>(), number("ms"), number("gflops"),
        number("ratio_limit"), number("eigen_ms"), number("eigen_gflops"), number("ratio_eigen"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 20;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      json = true;
    } else if (name == "--avx2") {  // as on a machine without AVX-512
      hwy::SetSupportedTargetsForTest(HWY_AVX2);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    } else if (name == "--rounds" && i + 1 < argc && std::atoi(argv[i + 1]) >= 1) {
      rounds = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "orthogonalize_bench [--rounds 20] [--avx2] [--json]\n");
      return 2;
    }
  }
  const nlohmann::json report = measure(rounds);
  if (json) {
    std::printf("%s\n", report.dump().c_str());
  } else {
    print(report);
  }
}
#endif  // HWY_ONCE
