#include <exception>

#include "transports/gloo_watch_internal.h"

namespace thinwire::near {
namespace {

// Gloo's own time-out is never to end a wait.
constexpr std::chrono::hours kNever{1'000};

Heard wait_on(gloo::transport::UnboundBuffer& buffer, bool sends) {
  try {
    const bool done = sends ? buffer.waitSend(kNever) : buffer.waitRecv(kNever);
    return done ? Heard::yes : Heard::late;
  } catch (const std::exception&) {
    return Heard::gone;
  }
}

}  // namespace

Watch::Watch() : thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Heard Watch::receive(gloo::transport::UnboundBuffer& buffer, Clock::time_point end) {
  return wait(buffer, end, false);
}

Heard Watch::send(gloo::transport::UnboundBuffer& buffer, Clock::time_point end) {
  return wait(buffer, end, true);
}

Heard Watch::wait(gloo::transport::UnboundBuffer& buffer, Clock::time_point end, bool sends) {
  {
    std::lock_guard lock(mutex_);
    waiting_ = &buffer;
    sends_ = sends;
    end_ = end;
    fired_ = false;
    // It wakes once in a deadline and sees then how long it may go on sleeping.
    if (end < wakes_) changed_.notify_all();
  }
  const Heard heard = wait_on(buffer, sends);
  std::lock_guard lock(mutex_);
  waiting_ = nullptr;
  // It came in the moment in which it was given up: what was to end this wait would end the next.
  if (fired_ && heard == Heard::yes) wait_on(buffer, sends);
  return heard;
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    wakes_ = waiting_ != nullptr ? end_ : Clock::time_point::max();
    if (waiting_ == nullptr) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, wakes_);
    }
    if (waiting_ == nullptr || Clock::now() < end_) continue;
    fired_ = true;
    sends_ ? waiting_->abortWaitSend() : waiting_->abortWaitRecv();
    waiting_ = nullptr;
  }
}

}  // namespace thinwire::near
