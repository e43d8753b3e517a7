#include "thinwire/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
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

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warning";
    default:
      return "error";
  }
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  const std::size_t end = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + end, sizeof text - end, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

// Bytes that are not printable ASCII are escaped one by one.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The word behind `what`, which the line must begin with; it goes on behind the word.
std::optional<std::string_view> take(std::string_view& line, std::string_view what) {
  if (!line.starts_with(what)) return std::nullopt;
  const std::size_t end = std::min(line.find_first_of(" ,:;", what.size()), line.size());
  const std::string_view word = line.substr(what.size(), end - what.size());
  if (word.empty()) return std::nullopt;
  line.remove_prefix(end);
  return word;
}

bool is_number(std::string_view text) {
  return text.size() < 19 && text.find_first_not_of("0123456789") == text.npos;
}

// What the line begins with, as fields.
std::string fields_of(std::string_view line) {
  std::map<std::string, std::string> fields;
  if (line.starts_with("hub: ")) {
    fields["from"] = quoted("hub");
    line.remove_prefix(5);
  } else if (std::string_view rest = line; const auto site = take(rest, "site ")) {
    if (rest.starts_with(": ")) {
      fields["from"] = fields["site"] = quoted(*site);
      line = rest.substr(2);
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (const char* key : {"round", "phase", "site"}) {
      std::string_view rest = line;
      const auto word = take(rest, std::string(key) + " ");
      const bool number = std::string_view(key) != "site";
      if (!word || (number && !is_number(*word))) continue;
      fields[key] = number ? std::string(*word) : quoted(*word);
      more = rest.starts_with(", ");
      line = rest.substr(more ? 2 : rest.size());
      break;
    }
  }
  std::string text;
  for (const auto& [key, value] : fields) text += ",\"" + key + "\":" + value;
  return text;
}

std::atomic<LogForm> form{LogForm::text};

}  // namespace

std::string json_line(LogLevel level, std::string_view line) {
  return "{\"time\":\"" + utc_now() + "\",\"level\":\"" + name_of(level) +
         "\",\"text\":" + quoted(line) + fields_of(line) + "}";
}

void set_log_form(LogForm chosen) {
  form = chosen;
  if (chosen == LogForm::json) logger().set_pattern("%v");
}

void log(LogLevel level, std::string_view line) {
  if (level == LogLevel::off || !logger().should_log(level_of(level))) return;
  if (form == LogForm::json) return logger().log(level_of(level), json_line(level, line));
  logger().log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
}

void set_log_level(LogLevel level) { logger().set_level(level_of(level)); }

}  // namespace thinwire
