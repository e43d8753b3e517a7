#include "src/core/near_queue.h"

#include <string>
#include <system_error>
#include <utility>

#include "thinwire/error.h"

namespace thinwire {

NearQueue::NearQueue(bool own_thread, Device device) : device_(device) {
  if (!own_thread) return;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    throw Error(std::string("cannot start the thread of the near link: ") + error.what() +
                "; take fewer ranks, or no prefetch");
  }
}

NearQueue::~NearQueue() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
  join_last();
}

// After a failure there may be no device to ask.
Mark NearQueue::mark_if_any() noexcept {
  try {
    return Mark::here(device_);
  } catch (...) {
    return {};
  }
}

NearQueue::Ticket NearQueue::push(std::function<void()> operation) {
  if (!has_thread()) {
    operation();
    return 0;
  }
  {
    Mark after = Mark::here(device_);
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(operation), std::move(after)});
  }
  changed_.notify_all();
  return ++pushed_;
}

void NearQueue::wait(Ticket ticket) {
  if (!has_thread()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
  if (failure_) std::rethrow_exception(failure_);
  last_.join();
}

void NearQueue::settle() noexcept {
  if (!has_thread()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= pushed_; });
  join_last();
}

// Memory that the operations wrote may be given back after it. A lost device has nothing to wait
// for.
void NearQueue::join_last() noexcept {
  try {
    last_.join();
  } catch (...) {
  }
}

void NearQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    std::exception_ptr failure = failure_;
    Mark done = last_;
    lock.unlock();
    if (!failure) {
      try {
        entry.after.join();
        entry.operation();
        done = Mark::here(device_);
      } catch (...) {
        failure = std::current_exception();
        done = mark_if_any();
      }
    }
    lock.lock();
    failure_ = std::move(failure);
    last_ = std::move(done);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace thinwire
