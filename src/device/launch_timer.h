// For benches: how long the kernels took that a thread has started, by the clock of the device.
// What the host does between them is not counted. One at a time on a thread.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "src/device/check.h"

namespace thinwire::device {

class LaunchTimer {
 public:
  LaunchTimer() { running_ = this; }
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;
  ~LaunchTimer() {
    running_ = nullptr;
    for (const auto& [begin, end] : events_) {
      cudaEventDestroy(begin);
      cudaEventDestroy(end);
    }
  }

  // Of all kernels since it was made; waits for them.
  double seconds() const {
    double sum = 0.0;
    for (const auto& [begin, end] : events_) {
      float milliseconds = 0.0f;
      check(cudaEventSynchronize(end), "timing a kernel");
      check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a kernel");
      sum += 1e-3 * static_cast<double>(milliseconds);
    }
    return sum;
  }
  std::size_t kernels() const { return events_.size(); }

  // start(), with an event of the thread's running timer before and after it, if there is one.
  template <class Start>
  static void around(const Start& start) {
    if (running_ == nullptr) return start();
    std::pair<cudaEvent_t, cudaEvent_t> events{};
    check(cudaEventCreate(&events.first), "timing a kernel");
    check(cudaEventCreate(&events.second), "timing a kernel");
    running_->events_.push_back(events);
    check(cudaEventRecord(events.first, cudaStreamPerThread), "timing a kernel");
    start();
    check(cudaEventRecord(events.second, cudaStreamPerThread), "timing a kernel");
  }

 private:
  static inline thread_local LaunchTimer* running_ = nullptr;
  std::vector<std::pair<cudaEvent_t, cudaEvent_t>> events_;
};

}  // namespace thinwire::device
