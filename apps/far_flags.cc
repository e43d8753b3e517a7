#include "apps/far_flags.h"

namespace thinwire::app {

FarFlags::FarFlags(CLI::App& app, CLI::App& train)
    : hub_verb_(app.add_subcommand("hub", "Be the meeting point of a run between sites")),
      keygen_verb_(app.add_subcommand("keygen", "Make a key pair for a hub or a site")),
      status_verb_(app.add_subcommand("status", "Show how a hub's run is going")) {
  hub_verb_->add_option("--listen", hub.listen,
                        "tcp://HOST:PORT; '*' for all (" + hub.listen + ")");
  hub_verb_->add_option("--keys", hub.keys_file,
                        "Key file of the hub; needed where others can reach it");
  hub_verb_->add_option("--allow", hub.allow_file, "File of public keys of sites, one a line");
  hub_verb_->add_option("--run", hub.run, "Id that all sites of the run give (run)");
  hub_verb_->add_option("--sites", hub.sites, "Places of the run: so many sites at once (2)");
  hub_verb_->add_option("--min-sites", hub.min_sites,
                        "With fewer the run stands still (begins with all, goes on with any)");
  hub_verb_->add_option("--peer-timeout", hub.peer_timeout_s,
                        "Seconds of silence after which a site is taken for dead (10)");
  hub_verb_->add_option("--round-deadline", hub.round_deadline_s,
                        "Seconds after its first frame when a round closes at the latest (60)");
  hub_verb_->add_option("--metrics", hub.metrics,
                        "HOST:PORT or PORT of this machine for Prometheus; none by default");
  hub_verb_->add_flag("--print-timeouts", hub.print_timeouts,
                      "Print what follows from the timeouts given and stop");
  for (CLI::App* verb : {hub_verb_, &train}) {
    verb->add_flag("--log-json", log_json, "Log one JSON object a line instead of text");
  }
  hub_verb_->add_flag("--json", hub.json, "Print them as JSON");
  keygen_verb_->add_option("FILE", keygen_file, "To be written; a file that exists stays")
      ->required();
  status_verb_->add_option("--hub", status.hub, "tcp://HOST:PORT (" + status.hub + ")");
  status_verb_->add_option("--keys", status.keys_file, "Key file of a site on the hub's list");
  status_verb_->add_option("--hub-key", status.hub_key, "The hub's public key");
  status_verb_->add_flag("--json", status.json, "Print the hub's JSON instead of a table");
  train.add_option("--site", site.site, "Be this site of a run between processes, with --hub");
  train.add_option("--hub", site.hubs, "tcp://HOST:PORT; several are tried in this order");
  train.add_option("--keys", site.keys_file, "Key file of this site (thinwire keygen)");
  train.add_option("--hub-key", site.hub_key, "The hub's public key");
  train.add_option("--run", site.run, "Id of the run, the same as the hub's (run)");
  train.add_option("--connect-timeout", site.connect_timeout_s,
                   "Seconds to wait for the run to begin (30)");
  train.add_option("--peer-timeout", site.peer_timeout_s,
                   "Seconds of silence after which the hub is taken for dead (10)");
  train.add_option("--hub-timeout", site.hub_timeout_s,
                   "Seconds without any hub after which the site gives up (120)");
  train.add_flag("--print-timeouts", site.print_timeouts,
                 "Print what follows from the timeouts given and stop");
}

}  // namespace thinwire::app
