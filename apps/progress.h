// How far a long run is, on standard error: one redrawn line on a terminal, plain lines now and
// then in a file. One thread; nothing else may write to the stream between update() and clear() or
// finish().
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace thinwire::app {

struct ProgressOptions {
  bool tty = false;               // redraw one line
  int width = 80;                 // columns of the terminal
  double every_s = 10.0;          // between plain lines; a terminal is redrawn ten times a second
  std::function<double()> now_s;  // a clock that never goes back; empty: the steady clock
};

// What suits standard error as it is: a terminal (TERM not dumb) of its own width, or not.
ProgressOptions progress_on_stderr();

class Progress {
 public:
  // `total` units of work lie ahead; `out` outlives the progress.
  Progress(std::ostream& out, std::uint64_t total, ProgressOptions options);

  // `done` units are behind us; `suffix` says what is going on: "distro seed 1  loss 2.31". The
  // first call and the one that reaches the total are always shown.
  void update(std::uint64_t done, std::string_view suffix);
  // Removes the redrawn line so that something else can be printed.
  void clear();
  // Leaves the last state on a line of its own.
  void finish();

 private:
  std::string line(double elapsed_s) const;
  void show(double now);

  std::ostream& out_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  ProgressOptions options_;
  std::string suffix_;
  double begun_s_;
  double shown_s_ = 0.0;
  bool shown_any_ = false;
  bool shown_latest_ = true;  // nothing to show yet
};

}  // namespace thinwire::app
