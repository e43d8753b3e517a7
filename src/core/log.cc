#include "thinwire/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace thinwire {
namespace {

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return term && std::strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) == 1;
}

// spdlog 1.10 does not know NO_COLOR (https://no-color.org), so the choice is made here.
bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color && *no_color) return false;
  return on_terminal();
}

spdlog::logger make_logger() {
  auto mode = wants_colour() ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(mode);
  spdlog::logger made("thinwire", std::move(sink));
  // On a terminal a progress bar may stand on the line; it draws itself again below.
  made.set_pattern((on_terminal() ? "\r\x1b[K" : "") + std::string("%H:%M:%S %^%l%$: %v"));
  made.flush_on(spdlog::level::trace);
  return made;
}

spdlog::logger& logger() {
  static spdlog::logger only = make_logger();
  return only;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

void log(LogLevel level, std::string_view line) {
  if (level == LogLevel::off) return;
  logger().log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
}

void set_log_level(LogLevel level) { logger().set_level(level_of(level)); }

}  // namespace thinwire
