#include "apps/stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <iostream>
#include <utility>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> signal_number{0};
std::atomic<int> stop_file{-1};  // readable from the first signal on

void raise_event(int file) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(file, &one, sizeof one));
}

void on_signal(int number) {
  if (stop.exchange(true)) ::_exit(128 + number);
  signal_number = number;
  raise_event(stop_file);
}

// Without a deadline: until one of them is readable.
bool readable(int file, int other, int most_ms) {
  pollfd files[2] = {{file, POLLIN, 0}, {other, POLLIN, 0}};
  while (::poll(files, 2, most_ms) < 0) {
  }
  return files[0].revents != 0;
}

int make_event() {
  const int file = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (file < 0) throw Error("cannot make an eventfd: the process has no descriptor left");
  return file;
}

}  // namespace

void catch_signals() {
  stop_file = make_event();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe and a file that may not grow are errors with a message.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

const std::atomic<bool>& stop_flag() { return stop; }
int stop_signal() { return signal_number; }

OnStop::OnStop(std::function<void()> on_stop, int patience_s)
    : on_stop_(std::move(on_stop)), patience_s_(patience_s), done_(make_event()) {
  thread_ = std::jthread([this] { watch(); });
}

OnStop::~OnStop() {
  raise_event(done_);
  thread_.join();
  ::close(done_);
}

void OnStop::watch() {
  if (readable(done_, stop_file, -1)) return;
  on_stop_();
  if (readable(done_, done_, 1000 * patience_s_)) return;
  std::cerr << "thinwire: stopped in the middle of a step; nothing was written\n" << std::flush;
  ::_exit(128 + stop_signal());
}

}  // namespace thinwire::app
