// `thinwire train --site`: this process is one site of a run between processes that meet at a hub.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/near_variables.h"
#include "apps/options.h"
#include "models/text.h"
#include "transports/zmq.h"

namespace thinwire::app {

struct SiteCommand {
  std::string site;               // name in the run; empty: all sites are threads of this process
  std::vector<std::string> hubs;  // in the order to be tried
  std::string keys_file;          // of this site; may be empty where the hub is on this machine
  std::string hub_key;            // the hub's public key
  std::string run = "run";
  double connect_timeout_s = 30.0;
  double peer_timeout_s = 10.0;
  double hub_timeout_s = 120.0;
  bool print_timeouts = false;
  NearCommand near = {};                // ranks as processes
  std::optional<RankPlace> place = {};  // of this process among them
};

// Throws UsageError where flags contradict each other or the run.
void check_site(const SiteCommand& command, const RunOptions& options);

// Everything of the resolved configuration that processes of a run must share, and the text they
// train on.
std::string shared_settings(const RunOptions& options, const Text& text);

// Where a saved site goes on, see ZmqLinkOptions.
struct GoOn {
  std::uint64_t first_round = 0;
  std::vector<Bytes> rounds = {};
};
// Dials the hub and waits for all sites. Throws Error naming what differs or who did not answer.
std::unique_ptr<ZmqLink> dial(const SiteCommand& command, const RunOptions& options,
                              const Text& text, GoOn from = {});

}  // namespace thinwire::app
