#include "src/codec/splits.h"

#include <algorithm>

namespace thinwire {
namespace {

constexpr std::uint32_t kKeptCountMax =
    256;                                 // larger splits are rare in an update and computed anew
constexpr double kNegligible = 0x1p-40;  // of the mode's chance: far below 1 / kTotalMax

// P(j) ~ C(left, j) C(right, c - j), through the ratios of neighbours. Only +, * and / of doubles,
// in this order: IEEE 754 gives the same bits everywhere.
struct Hypergeometric {
  double left, right, c;

  double up(double j) const { return ((left - j) * (c - j)) / ((j + 1) * (right - c + j + 1)); }
  double down(double j) const { return (j * (right - c + j)) / ((left - j + 1) * (c - j + 1)); }
};

}  // namespace

Split::Split(std::uint32_t n, std::uint32_t c) {
  const std::uint32_t left = n - n / 2;
  const Hypergeometric chance{double(left), double(n / 2), double(c)};
  const auto mode = static_cast<std::uint32_t>(std::uint64_t{c + 1} * (left + 1) / (n + 2));

  std::vector<double> weights;  // of mode, mode - 1, ...; turned round below
  double weight = 1.0;
  for (std::uint32_t j = mode; weight >= kNegligible; --j) {
    weights.push_back(weight);
    if (j == 0) break;
    weight *= chance.down(j);
  }
  std::reverse(weights.begin(), weights.end());
  const std::size_t mode_at = weights.size() - 1;
  first_ = mode - static_cast<std::uint32_t>(mode_at);
  weight = 1.0;
  for (std::uint32_t j = mode; j < c; ++j) {
    weight *= chance.up(j);
    if (weight < kNegligible) break;
    weights.push_back(weight);
  }

  double sum = 0.0;
  for (double each : weights) sum += each;
  const double scale = (kTotalMax - (c + 1)) / sum;  // every symbol gets 1 beforehand
  std::vector<std::uint32_t> widths(weights.size());
  std::uint32_t spent = c + 1 - static_cast<std::uint32_t>(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    widths[i] = 1 + static_cast<std::uint32_t>(weights[i] * scale);
    spent += widths[i];
  }
  widths[mode_at] += kTotalMax - spent;  // what rounding down left over

  below_.push_back(first_);
  for (std::uint32_t width : widths) below_.push_back(below_.back() + width);
}

std::uint32_t Split::search(std::uint32_t value) const {
  const auto after = std::upper_bound(below_.begin(), below_.end(), value);
  return first_ + static_cast<std::uint32_t>(after - below_.begin() - 1);
}

Splits::Node& Splits::node(std::uint32_t n) {
  const auto [at, fresh] = nodes_.try_emplace(n);
  Node& node = at->second;
  if (!fresh) return node;
  node.n = n;
  if (n < 2) return node;
  node.left = &this->node(n - n / 2);
  node.right = &this->node(n / 2);
  return node;
}

const Split& Splits::build(Node& node, std::uint32_t c) {
  if (c > kKeptCountMax) return large_ = Split(node.n, c);
  if (node.by_count.size() <= c) node.by_count.resize(c + 1);
  return node.by_count[c] = Split(node.n, c);
}

}  // namespace thinwire
