// What the parts of the stand-in share.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/fake_cuda/arena.h"
#include "tests/support/fake_cuda/machine.h"

namespace thinwire::fake_cuda {

struct Work {
  std::function<void()> run;
  bool gives_back = false;  // memory, which a lost device does too
};

struct Stream {
  explicit Stream(int on) : device(on) {}
  const int device;
  std::deque<Work> work;
  std::uint64_t handed_over = 0;
  std::uint64_t done = 0;
  bool running = false;  // somebody does the piece that was first
};
using StreamPointer = std::shared_ptr<Stream>;

enum class Kind { device, pinned };
struct Memory {
  std::size_t bytes = 0;
  Kind kind = Kind::device;
  int device = 0;
  bool given_back = false;  // as soon as what was handed over before is done
};

struct State {
  std::mutex mutex;  // of all below
  std::condition_variable moved;
  Machine machine;
  bool lost = false;
  std::uint64_t calls = 0;
  std::uint64_t calls_until_lost = ~std::uint64_t{0};
  std::uint64_t launches = 0;
  Arena arena;                              // of all devices
  std::map<std::uintptr_t, Memory> memory;  // by its first byte
  std::map<int, std::size_t> in_use;
  std::size_t pinned = 0;
  std::vector<std::weak_ptr<Stream>> streams;
};
State& state();

// Counts a call. What the machine answers to it before it even looks at the arguments; the caller
// holds the mutex.
cudaError_t answer(State& all);
// The error of lost devices, once nothing runs on them any more.
cudaError_t loss(State& all);
// Keeps an error for cudaGetLastError.
cudaError_t remember(cudaError_t error);

int current_device();
// Null for a handle that is none.
StreamPointer stream_of(State& all, cudaStream_t handle);
void append(Stream& stream, Work work);  // the caller holds the mutex
// Runs what was handed over to it before `end`; without the mutex.
void run_until(const StreamPointer& stream, std::uint64_t end);
void run_all(const StreamPointer& stream);

}  // namespace thinwire::fake_cuda
