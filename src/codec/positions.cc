#include "src/codec/positions.h"

#include <algorithm>

namespace thinwire {
namespace {

using Node = Splits::Node;

// A split of c > n / 2 is coded as that of the n - c not chosen, which has the smaller table.
bool by_absent(std::uint32_t n, std::uint32_t c) { return c > n / 2; }

std::uint32_t count_below(std::span<const std::uint16_t> positions, std::uint32_t bound) {
  if (positions.size() > 16)
    return static_cast<std::uint32_t>(std::lower_bound(positions.begin(), positions.end(), bound) -
                                      positions.begin());
  std::uint32_t count = 0;
  for (std::uint16_t position : positions) count += position < bound;
  return count;
}

// The one of base, base + 1, ... that is missing.
std::uint32_t find_absent(std::span<const std::uint16_t> positions, std::uint32_t base) {
  std::uint32_t at = 0;
  while (at < positions.size() && positions[at] == base + at) ++at;
  return at;
}

struct Encoder {
  RangeEncoder& coder;
  Splits& splits;

  void run(Node& node, std::span<const std::uint16_t> positions, std::uint32_t base) {
    const std::uint32_t n = node.n;
    const auto c = static_cast<std::uint32_t>(positions.size());
    if (c == 0 || c == n) return;
    if (c == 1) return coder.encode_uniform(positions[0] - base, n);
    if (c == n - 1) return coder.encode_uniform(find_absent(positions, base), n);

    const std::uint32_t middle = base + node.left->n;
    const std::uint32_t left = count_below(positions, middle);
    if (by_absent(n, c))
      coder.encode(splits.split(node, n - c).share(node.left->n - left), kTotalMax);
    else
      coder.encode(splits.split(node, c).share(left), kTotalMax);
    run(*node.left, positions.first(left), base);
    run(*node.right, positions.subspan(left), middle);
  }
};

struct Decoder {
  RangeDecoder& coder;
  Splits& splits;

  std::uint32_t symbol(Node& node, std::uint32_t c) {
    const Split& split = splits.split(node, c);
    const std::uint32_t symbol = split.symbol(coder.peek(kTotalMax));
    coder.take(split.share(symbol));
    return symbol;
  }

  void run(Node& node, std::span<std::uint16_t> positions, std::uint32_t base) {
    const std::uint32_t n = node.n;
    const auto c = static_cast<std::uint32_t>(positions.size());
    if (c == 0) return;
    if (c >= n - 1 && c > 1) {  // all, or all but one
      const std::uint32_t absent = c == n ? n : coder.decode_uniform(n);
      for (std::uint32_t i = 0; i < c; ++i)
        positions[i] = static_cast<std::uint16_t>(base + i + (i >= absent));
      return;
    }
    if (c == 1) {
      positions[0] = static_cast<std::uint16_t>(base + (n == 1 ? 0 : coder.decode_uniform(n)));
      return;
    }
    const std::uint32_t left =
        by_absent(n, c) ? node.left->n - symbol(node, n - c) : symbol(node, c);
    run(*node.left, positions.first(left), base);
    run(*node.right, positions.subspan(left), base + node.left->n);
  }
};

}  // namespace

void encode_positions(RangeEncoder& coder, Splits& splits, Node& node,
                      std::span<const std::uint16_t> positions) {
  Encoder{coder, splits}.run(node, positions, 0);
}

void decode_positions(RangeDecoder& coder, Splits& splits, Node& node,
                      std::span<std::uint16_t> positions) {
  Decoder{coder, splits}.run(node, positions, 0);
}

}  // namespace thinwire
