// A trace of a run for chrome://tracing and ui.perfetto.dev: one process a site, two threads a
// rank, training and near link. The file is a whole JSON document after every write, so it can be
// read whenever and however the program ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "thinwire/timeline.h"

namespace thinwire::app {

// The first steps of each run are written, and no more bytes in all.
inline constexpr std::uint64_t kTraceSteps = 200;
inline constexpr std::size_t kTraceBytes = 64u << 20;

class Trace {
 public:
  // Throws Error when the file cannot be written.
  explicit Trace(const std::filesystem::path& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Where a rank's spans go; the trace must outlive it. `run` tells runs in one file apart.
  std::unique_ptr<SpanSink> rank(int site, int rank, const std::string& run);

 private:
  class Rank;
  // Events with a comma before each. False when the file takes no more.
  bool append(const std::string& events);

  std::mutex mutex_;  // guards all below
  int file_ = -1;
  std::size_t size_ = 0;  // of the file
  bool full_ = false;
  const double begin_s_;
};

}  // namespace thinwire::app
