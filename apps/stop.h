// SIGINT and SIGTERM of the whole program. The first one asks it to end, the second one ends it at
// once.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace thinwire::app {

void catch_signals();  // once, from main()
const std::atomic<bool>& stop_flag();
int stop_signal();  // 0 before it came

// Calls `on_stop` when the user wants the program to end, also when that was before; once, from a
// thread of its own. What then does not end in time is ended with the signal's exit code: a step of
// a large model may take longer, and nothing of it would be kept. A run that saves gets the time
// to.
class OnStop {
 public:
  static constexpr int kSoon = 4;          // s
  static constexpr int kToSave = 10 * 60;  // s
  explicit OnStop(std::function<void()> on_stop, int patience_s = kSoon);
  ~OnStop();  // it is not called any more
  OnStop(const OnStop&) = delete;
  OnStop& operator=(const OnStop&) = delete;

 private:
  void watch();

  std::function<void()> on_stop_;
  int patience_s_;
  int done_ = -1;  // readable: this object goes
  std::jthread thread_;
};

}  // namespace thinwire::app
