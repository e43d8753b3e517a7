// --print-timeouts of `thinwire train` and `thinwire hub`: every waiting time of the far link, as
// it follows from --peer-timeout. And what contradicts it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace thinwire::app {

struct HubCommand;
struct SiteCommand;

// Of a flag given in seconds. Throws UsageError outside 0.1 .. 86400.
std::chrono::milliseconds milliseconds_of(const char* flag, double seconds);

// Throw UsageError naming the flags that contradict each other, with their values.
void check_timeouts(const SiteCommand& command);
void check_timeouts(const HubCommand& command);

struct Timeout {
  std::string key;   // in JSON, with its unit
  std::string what;  // for people
  double seconds;
  std::string from;  // the flag it is, or how it follows
};
std::vector<Timeout> timeouts_of(const SiteCommand& command);
std::vector<Timeout> timeouts_of(const HubCommand& command);

// Lines of at most kTableColumns, or one JSON object.
std::string timeouts_table(const std::vector<Timeout>& timeouts);
std::string timeouts_json(const std::vector<Timeout>& timeouts);

}  // namespace thinwire::app
