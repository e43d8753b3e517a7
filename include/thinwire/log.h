// Log lines on standard error, one a line, coloured only on a terminal without NO_COLOR. Any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace thinwire {

enum class LogLevel { debug, info, warn, error, off };

// text: "12:34:56 info: LINE". json: an object a line with time (UTC), level and text, and what the
// line begins with, when it does: "hub: " (from), "site NAME: " (from, site), "round N, phase P"
// and "site NAME" (round, phase, site).
enum class LogForm { text, json };
void set_log_form(LogForm form);  // default: text; before any thread logs
std::string json_line(LogLevel level, std::string_view line);

void log(LogLevel level, std::string_view line);
void set_log_level(LogLevel level);  // default: info

inline void log_debug(std::string_view line) { log(LogLevel::debug, line); }
inline void log_info(std::string_view line) { log(LogLevel::info, line); }
inline void log_warn(std::string_view line) { log(LogLevel::warn, line); }

}  // namespace thinwire
