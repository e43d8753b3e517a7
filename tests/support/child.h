// A process that a test or bench starts, signals and ends. It outlives neither its owner nor the
// thread that started it, whatever becomes of them. One thread at a time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace thinwire::test {

struct ChildOptions {
  std::vector<std::string> words;  // path of the program, arguments
  std::string output = {};         // file that standard output is appended to; empty: nowhere
  std::string errors = {};         // the same for standard error
  std::string directory = {};      // to run in
  int net_space = -1;              // file of the network namespace to run in; -1: this one
};

class Child {
 public:
  explicit Child(const ChildOptions& options);  // throws Error when it cannot be started
  ~Child();                                     // SIGKILL if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return process_; }
  void signal(int number) const;  // to a process that has not been waited for
  void kill();                    // SIGKILL, and waits for its end
  bool running();
  // Exit code, 128 + N for an end by signal N; nothing while it runs after so many seconds.
  std::optional<int> wait(double seconds);
  double memory_mib() const;  // resident now; 0 when it is gone

 private:
  bool reap(bool block);

  pid_t process_ = -1;
  std::optional<int> code_;
};

// Seconds of the monotonic clock, which all processes of a machine share.
double monotonic_s();

void pause_ms(int milliseconds);

// Asks every few milliseconds until the answer is yes; false after so many seconds.
template <class Ask>
bool wait_until(double seconds, Ask ask) {
  const double end = monotonic_s() + seconds;
  while (!ask()) {
    if (monotonic_s() > end) return false;
    pause_ms(3);
  }
  return true;
}

}  // namespace thinwire::test
