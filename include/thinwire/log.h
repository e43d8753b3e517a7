// Log lines on standard error, one a line, coloured only on a terminal without NO_COLOR. Any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace thinwire {

enum class LogLevel { debug, info, warn, error, off };

void log(LogLevel level, std::string_view line);
void set_log_level(LogLevel level);  // default: info

inline void log_debug(std::string_view line) { log(LogLevel::debug, line); }
inline void log_info(std::string_view line) { log(LogLevel::info, line); }
inline void log_warn(std::string_view line) { log(LogLevel::warn, line); }

}  // namespace thinwire
