#include "apps/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/error.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

constexpr std::string_view kEnd = "\n]\n";

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whole or not at all, as far as the system has it.
bool write_at(int file, std::size_t offset, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        ::pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

std::string name_event(const char* what, int site, int thread, const std::string& name) {
  const nlohmann::ordered_json event{
      {"name", what}, {"ph", "M"}, {"pid", site}, {"tid", thread}, {"args", {{"name", name}}}};
  return event.dump();
}

}  // namespace

// Keeps a step's spans and writes them when the step has ended.
class Trace::Rank final : public SpanSink {
 public:
  Rank(Trace& trace, int site, int rank, std::string run)
      : trace_(trace), site_(site), rank_(rank), run_(nlohmann::json(run).dump()) {}

  void span(const Span& span) noexcept override {
    if (done_ || span.step >= kTraceSteps) return;
    try {
      const std::string unit =
          span.unit < 0 ? std::string() : fmt::format(",\"unit\":{}", span.unit);
      const std::string event = fmt::format(
          ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f},\"pid\":{}"
          ","
          "\"tid\":{},\"args\":{{\"run\":{},\"step\":{}{}}}}}",
          to_string(span.phase), span.unit < 0 ? "step" : "near",
          1e6 * (span.begin_s - trace_.begin_s_), 1e6 * (span.end_s - span.begin_s), site_,
          2 * rank_ + (span.near_thread ? 1 : 0), run_, span.step, unit);
      const std::lock_guard lock(mutex_);
      events_ += event;
    } catch (const std::bad_alloc&) {
      done_ = true;
    }
  }

  void step_ended(std::uint64_t index) noexcept override {
    if (done_) return;
    const std::lock_guard lock(mutex_);
    if (!events_.empty() && !trace_.append(events_)) done_ = true;
    events_.clear();
    if (index + 1 >= kTraceSteps) done_ = true;
  }

 private:
  Trace& trace_;
  const int site_;
  const int rank_;
  const std::string run_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::string events_;  // guarded by mutex_
};

Trace::Trace(const std::filesystem::path& path) : begin_s_(now_s()) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const std::string text = "[\n" + name_event("trace_name", 0, 0, "thinwire") + std::string(kEnd);
  if (file_ < 0 || !write_at(file_, 0, text)) {
    const int error = errno;
    if (file_ >= 0) ::close(file_);
    throw Error("cannot write the trace '" + path.string() + "': " + std::strerror(error));
  }
  size_ = text.size();
}

Trace::~Trace() { ::close(file_); }

std::unique_ptr<SpanSink> Trace::rank(int site, int rank, const std::string& run) {
  append(",\n" + name_event("process_name", site, 0, fmt::format("site {}", site)) + ",\n" +
         name_event("thread_name", site, 2 * rank, fmt::format("rank {}", rank)) + ",\n" +
         name_event("thread_name", site, 2 * rank + 1, fmt::format("rank {} near link", rank)));
  return std::make_unique<Rank>(*this, site, rank, run);
}

bool Trace::append(const std::string& events) {
  const std::lock_guard lock(mutex_);
  if (full_) return false;
  const std::size_t at = size_ - kEnd.size();
  full_ = at + events.size() > kTraceBytes;
  if (full_) return false;
  if (!write_at(file_, at, events + std::string(kEnd))) {
    full_ = true;
    log_warn(std::string("the trace ends here: ") + std::strerror(errno));
    write_at(file_, at, std::string(kEnd));
    if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) log_warn("the trace is cut");
    return false;
  }
  size_ = at + events.size() + kEnd.size();
  return true;
}

}  // namespace thinwire::app
