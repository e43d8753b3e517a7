// Threads of a block as fibers of the calling thread, one block after another. A thread runs until
// it has to wait for others: at a barrier of the block or in an operation of its warp. Aborts, with
// a line that says who waits where, when a thread waits for one that will never come.
//
// Under the thread sanitizer every thread of a block is one of its own, which only barriers and
// __syncwarp bring into an order: what two threads do to the same memory without is reported.
// Shuffles and votes order nothing, as on a device.
#pragma once

#include <cstdint>
#include <functional>

namespace thinwire::fake_cuda {

// Runs `thread` for all threads of all blocks, which find their place in threadIdx and blockIdx.
void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& thread);

// Makes what run_grid keeps for the calling thread.
void prepare_thread();

enum class Barrier { plain, count, any, all };
// How many threads of the block came with `vote`.
unsigned meet_block(Barrier kind, bool vote);

enum class Meeting { sync, shuffle, ballot, add, least, most, least_signed, most_signed };
// What the lanes of a warp that `mask` names bring together: the value of lane `from`, the lanes
// whose value is not 0, or the sum and so on of 32-bit values.
std::uint64_t meet_warp(Meeting kind, unsigned mask, std::uint64_t value, unsigned from = 0);

}  // namespace thinwire::fake_cuda
