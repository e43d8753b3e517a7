// Waits with a deadline that leave the connections as they are: Gloo's own time-outs close all of
// them, and nobody could be told who was missed. A thread ends the wait when its time has come.
// Internal to transports/gloo*.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace thinwire::near {

enum class Heard { yes, late, gone };  // gone: the connection is closed

class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  Watch();
  ~Watch();

  // Waits for the buffer's next arrival, or until its next send has left this process. One thread.
  Heard receive(gloo::transport::UnboundBuffer& buffer, Clock::time_point end);
  Heard send(gloo::transport::UnboundBuffer& buffer, Clock::time_point end);

 private:
  Heard wait(gloo::transport::UnboundBuffer& buffer, Clock::time_point end, bool sends);
  void run();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  gloo::transport::UnboundBuffer* waiting_ = nullptr;
  bool sends_ = false;
  bool fired_ = false;
  bool closing_ = false;
  Clock::time_point end_;
  Clock::time_point wakes_ = Clock::time_point::max();
  std::jthread thread_;
};

}  // namespace thinwire::near
