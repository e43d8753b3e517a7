// The order in which a grid's blocks and threads run, as order.h asks for.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/fake_cuda/order.h"

namespace thinwire::fake_cuda {

class Permutation {
 public:
  Permutation(unsigned blocks, unsigned threads);

  unsigned block(unsigned place) const { return at(blocks_, block_count_, place); }
  unsigned thread(unsigned place) const { return at(threads_, thread_count_, place); }
  // Shuffled threads change places; the others keep theirs.
  void next_pass();

 private:
  unsigned at(const std::vector<unsigned>& shuffled, unsigned count, unsigned place) const {
    if (order_ == Order::forward) return place;
    return order_ == Order::reverse ? count - 1 - place : shuffled[place];
  }

  Order order_;
  unsigned block_count_;
  unsigned thread_count_;
  std::minstd_rand engine_;
  std::vector<unsigned> blocks_;
  std::vector<unsigned> threads_;
};

}  // namespace thinwire::fake_cuda
