#include "apps/hub_command.h"

#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "apps/timeouts_command.h"
#include "thinwire/error.h"
#include "thinwire/log.h"
#include "transports/zmq.h"
#include "transports/zmq_address_internal.h"
#include "transports/zmq_names_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire::app {
namespace {

constexpr std::chrono::seconds kLookup{5};

std::atomic<ZmqHub*> running{nullptr};  // what a signal handler can reach

void on_signal(int number) {
  ZmqHub* hub = running.exchange(nullptr);
  if (hub == nullptr) ::_exit(128 + number);  // the second signal leaves at once
  hub->stop();
}

// The handler is taken away again before the hub goes.
class SignalsStop {
 public:
  explicit SignalsStop(ZmqHub& hub) {
    running = &hub;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~SignalsStop() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
    running = nullptr;
  }
  SignalsStop(const SignalsStop&) = delete;
  SignalsStop& operator=(const SignalsStop&) = delete;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

ZmqHubOptions resolve(const HubCommand& command) {
  check_timeouts(command);
  ZmqHubOptions options;
  options.listen = own_listen_address(command.listen, kLookup);
  options.run = command.run;
  options.sites = command.sites;
  options.min_sites = command.min_sites;
  options.peer_timeout = milliseconds_of("--peer-timeout", command.peer_timeout_s);
  options.round_deadline = milliseconds_of("--round-deadline", command.round_deadline_s);
  options.metrics = command.metrics;
  if (!command.keys_file.empty()) options.keys = read_zmq_keys(command.keys_file);
  if (!command.allow_file.empty()) {
    for (AllowedKey& one : read_allow_list(command.allow_file)) {
      options.allowed.push_back(std::move(one.key));
    }
  }
  return options;
}

// Where sites cannot come, or can.
void say_who_can_dial(const ZmqHubOptions& options, const std::string& bound) {
  const HostPort address = parse_address(bound, AddressUse::listen);
  if (is_loopback(address) && !options.allowed.empty()) {
    return log_warn("hub: this machine alone can dial " + bound +
                    "; for sites elsewhere listen on tcp://*:PORT, or lead a tunnel here");
  }
  if (is_link_local(address)) {
    return log_warn("hub: " + address.host +
                    " is a link-local address: sites of the same cable alone can dial it");
  }
  if (address.host != "*" && address.host != "0.0.0.0" && address.host != "::") return;
  const std::vector<std::string> others = addresses_for_others(address.port);
  if (others.empty()) {
    return log_warn("hub: this machine has no address that sites elsewhere could dial");
  }
  std::string all;
  for (const std::string& one : others) all += (all.empty() ? "" : " or ") + one;
  log_info("hub: sites dial " + all + ", or the address that leads here from where they are");
}

}  // namespace

void run_hub(const HubCommand& command, const std::atomic<bool>& stop) {
  if (command.print_timeouts) {
    check_timeouts(command);
    const std::vector<Timeout> timeouts = timeouts_of(command);
    std::cout << (command.json ? timeouts_json(timeouts) : timeouts_table(timeouts));
    return;
  }
  const ZmqHubOptions options = resolve(command);
  ZmqHub hub(options);
  const SignalsStop signals(hub);
  if (stop) return;
  if (!hub.metrics_address().empty()) {
    log_info("hub: metrics at http://" + hub.metrics_address() + "/metrics");
  }
  const std::string& key = options.keys.public_key;
  log_info("hub: run " + options.run + " of " + std::to_string(options.sites) +
           " sites, listening on " + hub.address() +
           (key.empty() ? ", without keys" : ", public key " + key));
  say_who_can_dial(options, hub.address());
  hub.run();
  log_info("hub: stopped");
}

}  // namespace thinwire::app
