// What training costs beside its matrix products. The preset "small" takes full steps (forward,
// backward, AdamW) on one thread, in turns with exactly the products of such a step; the least
// processor time of each counts.
//
//   train_bench [--json] [--rounds N]
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "models/counter_random.h"
#include "models/gpt.h"
#include "models/gpt_math.h"
#include "models/text.h"
#include "tests/support/plain_units.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

constexpr std::size_t kBatch = 8;

// Time of this thread on a processor, or of the clock on the wall. They agree on an idle machine;
// the first does not count what other programs take.
double now_ms(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double milliseconds(clockid_t clock, auto&& action) {
  const double begin = now_ms(clock);
  action();
  return now_ms(clock) - begin;
}

Text random_text() {
  std::vector<std::uint8_t> bytes(200000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(97 + random_bits(1, 2, i) % 26);
  }
  return Text::from_bytes(bytes);
}

// A rank with everything it needs to train.
class Rank {
 public:
  explicit Rank(const Text& text)
      : model_(GptOptions::preset("small"), text, {.global_batch = kBatch}), units_(model_) {
    for (int u = 0; u < units_.layout().units(); ++u) {
      first_.emplace_back(units_.layout().unit_size(u));
      second_.push_back(first_.back());
    }
  }

  float step() {
    const float loss = model_.loss_and_grad(units_, {.index = index_++});
    adamw();
    return loss;
  }

 private:
  void adamw() {
    const auto steps = static_cast<float>(index_);
    kernels::AdamwStep step;
    step.keep = 1.0f - 1e-3f * 0.1f;
    step.rate = 1e-3f / (1.0f - std::pow(step.beta1, steps));
    step.v_scale = 1.0f / std::sqrt(1.0f - std::pow(step.beta2, steps));
    for (int u = 0; u < units_.layout().units(); ++u) {
      kernels::adamw(units_.weights_of(u), first_[u], second_[u], units_.gradient_of(u), step);
    }
  }

  Gpt model_;
  test::PlainUnits units_;
  std::vector<std::vector<float>> first_, second_;  // AdamW's moments of each unit
  std::uint64_t index_ = 0;
};

// The products of one step, by the model's own functions on operands of the same shapes and
// strides.
class Products {
 public:
  explicit Products(const GptOptions& options) : o_(options) {
    const std::size_t rows = kBatch * o_.context;
    for (std::size_t i = 0; i < kOperands; ++i) {
      operands_.push_back(std::vector<float>(rows * 4 * o_.width));
      for (std::size_t j = 0; j < operands_[i].size(); ++j) {
        operands_[i][j] = 0.1f * random_normal(1, i, j);
      }
    }
  }

  void run() {
    const std::size_t slices = std::clamp<std::size_t>(kBatch * o_.context / 512, 1, kBatch);
    const std::size_t rows = kBatch * o_.context / slices, width = o_.width;
    const std::size_t hidden = o_.mlp_ratio * width;
    for (std::size_t slice = 0; slice < slices; ++slice) {
      for (std::size_t layer = 0; layer < o_.layers; ++layer) {
        linear(rows, width, 3 * width);
        linear(rows, width, width);
        linear(rows, width, hidden);
        linear(rows, hidden, width);
        attention(rows);
      }
      head(rows);
    }
  }

  double flops() const {
    const double rows = kBatch * o_.context, width = o_.width;
    const double per_row =
        o_.layers * (4.0 + 2.0 * o_.mlp_ratio) * width * width + width * o_.vocab;
    // Of each row of scores, what the bands leave: on average (context + band) / 2.
    const double attention = o_.layers * 3.0 * rows * (o_.context + Lower::kBand) * width;
    return 2.0 * (3.0 * rows * per_row + attention);
  }

 private:
  using Product = math::Product<float>;
  using Lower = math::LowerProduct<float>;
  using View = math::View<float>;
  static constexpr std::size_t kOperands = 4;

  View view(std::size_t operand, std::size_t rows, std::size_t cols) {
    return View(operands_[operand].data(), rows, cols);
  }
  void linear(std::size_t rows, std::size_t in, std::size_t out) {
    Product::add_nn(view(0, rows, in), view(1, in, out), view(2, rows, out));
    Product::tn(view(0, rows, in), view(2, rows, out), view(3, in, out));
    Product::nt(view(2, rows, out), view(1, in, out), view(3, rows, in));
  }
  void head(std::size_t rows) {
    Product::nt(view(0, rows, o_.width), view(1, o_.vocab, o_.width), view(2, rows, o_.vocab));
    Product::tn(view(2, rows, o_.vocab), view(0, rows, o_.width), view(3, o_.vocab, o_.width));
    Product::nn(view(2, rows, o_.vocab), view(1, o_.vocab, o_.width), view(3, rows, o_.width));
  }
  void attention(std::size_t rows) {
    const std::size_t context = o_.context, size = o_.width / o_.heads;
    for (std::size_t row = 0; row < rows; row += context) {
      for (std::size_t head = 0; head < o_.heads; ++head) {
        const auto part = [&](std::size_t operand, std::size_t index, std::size_t parts) {
          return View(
              operands_[operand].data() + row * parts * o_.width + index * o_.width + head * size,
              context, size, parts * o_.width);
        };
        const View q = part(0, 0, 3), k = part(0, 1, 3), v = part(0, 2, 3), out = part(1, 0, 1);
        const View scores = view(2, context, context);
        Lower::nt(q, k, scores);
        Lower::nn(scores, v, out);
        Lower::tn(scores, out, part(3, 2, 3));
        Lower::nt(out, v, scores);
        Lower::nn(scores, k, part(3, 0, 3));
        Lower::tn(scores, q, part(3, 1, 3));
      }
    }
  }

  GptOptions o_;
  std::vector<std::vector<float>> operands_;
};

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    std::string found = line.substr(line.find(':') + 2);
    found.append(", ").append(std::to_string(std::thread::hardware_concurrency()));
    return found.append(" cores");
  }
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return std::string(text, size);
}

nlohmann::ordered_json compare_with_products(int rounds) {
  const Text text = random_text();
  Rank rank(text);
  const GptOptions options = GptOptions::preset("small");
  Products products(options);
  for (int i = 0; i < 3; ++i) rank.step(), products.run();
  double step_ms = std::numeric_limits<double>::infinity();
  double products_ms = step_ms;
  for (int i = 0; i < rounds; ++i) {
    step_ms = std::min(step_ms, milliseconds(CLOCK_THREAD_CPUTIME_ID, [&] { rank.step(); }));
    products_ms =
        std::min(products_ms, milliseconds(CLOCK_THREAD_CPUTIME_ID, [&] { products.run(); }));
  }
  return {{"step_ms", step_ms},
          {"products_ms", products_ms},
          {"ratio", step_ms / products_ms},
          {"tokens_per_s", 1e3 * kBatch * options.context / step_ms},
          {"products_gflop_per_s", products.flops() / products_ms / 1e6}};
}

int run(int count, char** words) {
  bool json = false;
  int rounds = 40;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--json") {
      json = true;
    } else if (word == "--rounds" && i + 1 < count) {
      rounds = std::max(1, std::atoi(words[++i]));
    } else {
      std::fprintf(stderr, "usage: train_bench [--json] [--rounds N]\n");
      return 2;
    }
  }
  nlohmann::ordered_json result = compare_with_products(rounds);
  result["machine"] = machine();
  result["compiler"] = __VERSION__;
  result["date"] = today();
  if (json) {
    std::printf("%s\n", result.dump().c_str());
    return 0;
  }
  for (const auto& [name, value] : result.items()) {
    std::printf("%-22s %s\n", name.c_str(), value.dump().c_str());
  }
  return 0;
}

}  // namespace
}  // namespace thinwire

int main(int count, char** words) { return thinwire::run(count, words); }
