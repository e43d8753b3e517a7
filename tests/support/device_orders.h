// Runs a piece of a test of device code in several orders of its threads where these are emulated,
// and once where they are not.
#pragma once

#include <string>

#ifdef THINWIRE_EMULATED_CUDA
#include "tests/support/fake_cuda/order.h"
#endif

namespace thinwire::testing_support {

// body(name of the order)
template <class Body>
void for_each_order(const Body& body) {
#ifdef THINWIRE_EMULATED_CUDA
  using fake_cuda::Order;
  struct Restore {
    ~Restore() { fake_cuda::run_threads(Order::forward); }
  } restore;
  fake_cuda::run_threads(Order::forward);
  body(std::string("forward"));
  fake_cuda::run_threads(Order::reverse);
  body(std::string("reverse"));
  fake_cuda::run_threads(Order::shuffled, 7);
  body(std::string("shuffled"));
#else
  body(std::string("the device's order"));
#endif
}

}  // namespace thinwire::testing_support
