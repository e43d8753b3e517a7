// `thinwire status`: how a hub's run is going.
#pragma once

#include <string>

namespace thinwire::app {

struct StatusCommand {
  std::string hub = "tcp://127.0.0.1:5555";
  std::string keys_file;
  std::string hub_key;
  bool json = false;  // as the hub gave it
};

void run_status(const StatusCommand& command);

// The hub's JSON as a table of at most kTableColumns. Throws Error when it is none of a hub.
std::string status_table(const std::string& json);

}  // namespace thinwire::app
