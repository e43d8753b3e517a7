// `thinwire hub`: the meeting point of a run between sites.
#pragma once

#include <atomic>
#include <string>

namespace thinwire::app {

struct HubCommand {
  std::string listen = "tcp://127.0.0.1:5555";
  std::string keys_file;   // of the hub; may be empty on loopback addresses alone
  std::string allow_file;  // public keys of sites
  std::string run = "run";
  int sites = 2;
  int min_sites = 0;
  double peer_timeout_s = 10.0;
  double round_deadline_s = 60.0;
  std::string metrics;  // address of the Prometheus endpoint; empty: none
  bool print_timeouts = false;
  bool json = false;  // of --print-timeouts
};

// Until SIGINT or SIGTERM, which it takes over; `stop` is looked at once, after that.
void run_hub(const HubCommand& command, const std::atomic<bool>& stop);

}  // namespace thinwire::app
