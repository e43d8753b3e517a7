#include "apps/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <utility>

namespace thinwire::app {
namespace {

constexpr double kRedrawEvery_s = 0.1;
constexpr int kBarMax = 30;
constexpr int kBarMin = 5;

std::string clock_text(double seconds) {
  auto whole = static_cast<long long>(std::clamp(seconds, 0.0, 1e12) + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string bar(double share, int width) {
  int full = static_cast<int>(share * width);
  return "[" + std::string(full, '#') + std::string(width - full, '-') + "] ";
}

}  // namespace

ProgressOptions progress_on_stderr() {
  ProgressOptions options;
  const char* term = std::getenv("TERM");
  options.tty = isatty(STDERR_FILENO) == 1 && term && std::string_view(term) != "dumb";
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

Progress::Progress(std::ostream& out, std::uint64_t total, ProgressOptions options)
    : out_(out), total_(total), options_(std::move(options)) {
  if (!options_.now_s) options_.now_s = steady_s;
  begun_s_ = options_.now_s();
}

std::string Progress::line(double elapsed_s) const {
  double share = total_ ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
  // Whole numbers round down: 100% is said of nothing unfinished.
  std::uint64_t percent = total_ ? done_ * 100 / total_ : 100;
  std::string text = fmt::format("{:3}%  {} elapsed", percent, clock_text(elapsed_s));
  if (done_ > 0 && done_ < total_) {
    text += fmt::format("  {} left", clock_text(elapsed_s * (1 - share) / share));
  }
  if (!suffix_.empty()) text += "  " + suffix_;
  if (!options_.tty) return text;
  // The last column stays free: some terminals wrap when it is written.
  std::size_t room = static_cast<std::size_t>(std::max(options_.width - 1, 1));
  int bar_width = static_cast<int>(room) - static_cast<int>(text.size()) - 3;
  if (bar_width >= kBarMin) text = bar(share, std::min(bar_width, kBarMax)) + text;
  return text.substr(0, room);
}

void Progress::update(std::uint64_t done, std::string_view suffix) {
  done_ = std::min(done, total_);
  suffix_ = suffix;
  shown_latest_ = false;
  double now = options_.now_s();
  double every_s = options_.tty ? kRedrawEvery_s : options_.every_s;
  if (!shown_any_ || done_ == total_ || now - shown_s_ >= every_s) show(now);
}

void Progress::show(double now) {
  std::string text = line(now - begun_s_);
  // Return, text, erase what an earlier, longer line left behind.
  out_ << (options_.tty ? "\r" + text + "\x1b[K" : text + "\n") << std::flush;
  shown_s_ = now;
  shown_any_ = shown_latest_ = true;
}

void Progress::clear() {
  if (options_.tty && shown_any_) out_ << "\r\x1b[K" << std::flush;
}

void Progress::finish() {
  if (!shown_latest_) show(options_.now_s());
  if (options_.tty && shown_any_) out_ << "\n" << std::flush;
}

}  // namespace thinwire::app
