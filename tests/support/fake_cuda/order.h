// In which order the threads of a block and the blocks of a grid run, between two barriers: a test
// control. What holds on a device holds in every order; a kernel that lacks a barrier, or leans on
// another block, gives other results in some.
#pragma once

#include <cstdint>

namespace thinwire::fake_cuda {

enum class Order { forward, reverse, shuffled };

// Of all launches that run from now on.
void run_threads(Order order, std::uint32_t seed = 1);
Order order_of_threads();

}  // namespace thinwire::fake_cuda
