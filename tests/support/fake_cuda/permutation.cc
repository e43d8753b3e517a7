#include "tests/support/fake_cuda/permutation.h"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace thinwire::fake_cuda {
namespace {

std::atomic<Order> chosen{Order::forward};
std::atomic<std::uint32_t> chosen_seed{1};

std::vector<unsigned> numbers(unsigned count) {
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace

void run_threads(Order order, std::uint32_t seed) {
  chosen = order;
  chosen_seed = seed;
}

Order order_of_threads() { return chosen; }

Permutation::Permutation(unsigned blocks, unsigned threads)
    : order_(chosen), block_count_(blocks), thread_count_(threads), engine_(chosen_seed.load()) {
  if (order_ != Order::shuffled) return;
  blocks_ = numbers(blocks);
  threads_ = numbers(threads);
  std::shuffle(blocks_.begin(), blocks_.end(), engine_);
}

void Permutation::next_pass() {
  if (order_ == Order::shuffled) std::shuffle(threads_.begin(), threads_.end(), engine_);
}

}  // namespace thinwire::fake_cuda
