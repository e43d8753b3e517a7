// Frequencies for binary splitting: of c chosen among n, how many lie in the first ceil(n/2)?
// The chance is hypergeometric; here it is in integers that sum to 2^16, equal on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "src/codec/range_coder.h"

namespace thinwire {

// The shares of 0 .. c. Symbols before and after a window around the mode have width 1 and need no
// table.
class Split {
 public:
  Split() = default;
  // 1 <= c <= n / 2, n <= 65535.
  Split(std::uint32_t n, std::uint32_t c);

  bool built() const { return !below_.empty(); }
  Share share(std::uint32_t symbol) const {
    if (symbol < first_) return {symbol, 1};
    const std::size_t at = symbol - first_;
    if (at + 1 < below_.size()) return {below_[at], below_[at + 1] - below_[at]};
    return {below_.back() + static_cast<std::uint32_t>(at + 1 - below_.size()), 1};
  }
  // The symbol whose share contains `value`, 0 <= value < kTotalMax.
  std::uint32_t symbol(std::uint32_t value) const {
    if (value < first_) return value;
    if (value >= below_.back())
      return first_ + static_cast<std::uint32_t>(below_.size() - 1) + (value - below_.back());
    std::uint32_t at = 0;
    if (below_.size() > 16) {
      return search(value);
    }
    while (below_[at + 1] <= value) ++at;
    return first_ + at;
  }

 private:
  std::uint32_t search(std::uint32_t value) const;

  std::uint32_t first_ = 0;  // symbol of the window's first entry
  std::vector<std::uint32_t>
      below_;  // window + 1 entries: what lies below each symbol, then the end
};

// The splits met while one update is coded, each computed once. Not for two threads at a time.
class Splits {
 public:
  struct Node {
    std::uint32_t n = 0;
    Node* left = nullptr;  // ceil(n/2) coefficients; both null when n < 2
    Node* right = nullptr;
    std::vector<Split> by_count;
  };

  // n <= 65535. Nodes live as long as this object.
  Node& node(std::uint32_t n);
  // 1 <= c <= n / 2. Valid until the next call.
  const Split& split(Node& node, std::uint32_t c) {
    if (c < node.by_count.size() && node.by_count[c].built()) return node.by_count[c];
    return build(node, c);
  }

 private:
  const Split& build(Node& node, std::uint32_t c);

  std::map<std::uint32_t, Node> nodes_;
  Split large_;  // the last split with too many chosen to keep
};

}  // namespace thinwire
