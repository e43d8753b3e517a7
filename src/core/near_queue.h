// The near link's operations in the order in which the training thread asks for them, which is the
// same on all ranks of a site: executed one after another on a thread of their own, or at once.
// What they hand over to the device comes after what the training thread has, and a wait puts what
// that thread does next after them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "thinwire/device.h"

namespace thinwire {

class NearQueue {
 public:
  using Ticket = std::uint64_t;  // 0: nothing to wait for

  // Without a thread push() executes the operation itself. Throws Error when there is no thread to
  // be had.
  explicit NearQueue(bool own_thread, Device device = {});
  // Drops what has not begun and waits for what has.
  ~NearQueue();

  bool has_thread() const { return thread_.joinable(); }

  Ticket push(std::function<void()> operation);
  // Until that operation and all before it are done. Throws the first failure of any; nothing is
  // executed after one.
  void wait(Ticket ticket);
  void wait_for_all() { wait(pushed_); }
  // Until nothing is at work, and what was handed over to the device comes before what this thread
  // does next; failures stay for the next wait.
  void settle() noexcept;

 private:
  void work();
  Mark mark_if_any() noexcept;
  void join_last() noexcept;

  struct Entry {
    std::function<void()> operation;
    Mark after;
  };

  const Device device_;
  Ticket pushed_ = 0;  // training thread's
  std::mutex mutex_;   // guards all below but the thread
  std::condition_variable changed_;
  std::deque<Entry> waiting_;
  Mark last_;  // of what was handed over by the operations done
  Ticket done_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace thinwire
