#include "apps/hub_command.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>

#include "thinwire/error.h"
#include "thinwire/log.h"
#include "transports/zmq.h"
#include "transports/zmq_security_internal.h"

namespace thinwire::app {
namespace {

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
  ZmqHubOptions options;
  options.listen = command.listen;
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

}  // namespace

std::chrono::milliseconds milliseconds_of(const char* flag, double seconds) {
  if (!(seconds >= 0.1 && seconds <= 86'400.0)) {
    throw UsageError(std::string(flag) + " lies between 0.1 and 86400 seconds");
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

void run_hub(const HubCommand& command, const std::atomic<bool>& stop) {
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
  hub.run();
  log_info("hub: stopped");
}

}  // namespace thinwire::app
