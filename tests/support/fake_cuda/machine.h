// The machine that the stand-in of the CUDA runtime plays: what a test sets and may ask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/support/fake_cuda/order.h"

namespace thinwire::fake_cuda {

struct Machine {
  int devices = 2;                           // 0: the driver finds none
  std::size_t bytes = std::size_t{1} << 30;  // of each device
  int driver =
      13000;  // the CUDA version that the driver knows, 1000 major + 10 minor; 0: no driver
  int runtime = 13000;
  int capability = 90;  // of the devices, 10 major + minor
  bool pinned = true;   // the host's memory can be pinned
};
// From now on. The library asks for devices once in a process. What was lost is back.
void set_machine(const Machine& machine);

// From the call after `calls` more ones on every call answers that the launch failed, from all
// threads, and nothing that was handed over is done.
void lose_devices(std::uint64_t calls = 0);

// Not given back, or not even handed over to be.
std::size_t bytes_in_use(int device);
std::size_t pinned_bytes();
// Launches and copies that the calling thread has handed over and that are still to be done.
std::size_t pending(int device);
// Kernels that were handed over so far, by all threads.
std::uint64_t launches();
std::uint64_t calls();

}  // namespace thinwire::fake_cuda
