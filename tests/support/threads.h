// Threads that play ranks in a test; the first exception of any of them is rethrown.
#pragma once

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace thinwire::test {

template <class Play>
void run_threads(int count, Play play) {
  std::exception_ptr failure;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          play(i);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace thinwire::test
