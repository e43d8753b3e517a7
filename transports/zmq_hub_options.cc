#include <cstdio>
#include <utility>

#include "thinwire/error.h"
#include "transports/hub_messages_internal.h"
#include "transports/timeouts_internal.h"
#include "transports/zmq_hub_options_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire {
namespace {

// "localhost" is no address that ZeroMQ binds.
std::string address_to_bind(const std::string& listen) {
  HostPort address = parse_address(listen, AddressUse::listen);
  if (address.host == "localhost") address.host = "127.0.0.1";
  return to_text(address);
}

void check_keys(const ZmqHubOptions& options) {
  const bool keys = !options.keys.public_key.empty();
  if (!keys && !is_loopback(options.listen)) {
    throw UsageError("others can reach " + options.listen +
                     ": give the hub keys and a list of the sites it lets in (--keys, --allow; see "
                     "thinwire keygen), or listen on 127.0.0.1");
  }
  if (!keys && !options.allowed.empty()) {
    throw UsageError("a list of allowed sites (--allow) needs the hub's keys (--keys) too");
  }
  if (keys && options.allowed.empty()) {
    throw UsageError(
        "a hub with keys (--keys) lets in listed sites alone, and the list (--allow) "
        "names none");
  }
  if (keys && (!is_zmq_key(options.keys.public_key) || !is_zmq_key(options.keys.secret_key))) {
    throw UsageError("the hub's keys are not two of 40 characters; see thinwire keygen");
  }
}

std::string text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g s", seconds);
  return text;
}

void check_times(const ZmqHubOptions& options) {
  const double peer = std::chrono::duration<double>(options.peer_timeout).count();
  const double deadline = std::chrono::duration<double>(options.round_deadline).count();
  const std::pair<const char*, double> times[] = {{"--peer-timeout", peer},
                                                  {"--round-deadline", deadline}};
  for (const auto& [flag, value] : times) {
    if (value >= timeouts::kKnobMin && value <= timeouts::kKnobMax) continue;
    throw UsageError(std::string(flag) + " lies between 0.1 and 86400 seconds, not " + text(value));
  }
}

}  // namespace

ZmqHubOptions checked(ZmqHubOptions options) {
  options.listen = address_to_bind(options.listen);
  check_keys(options);
  if (options.run.empty() || options.run.size() > hub::kRunMax) {
    throw UsageError("the run's id (--run) has 1 to " + std::to_string(hub::kRunMax) +
                     " characters");
  }
  if (options.min_sites < 0 || options.min_sites > options.sites) {
    throw UsageError("--min-sites " + std::to_string(options.min_sites) + " contradicts --sites " +
                     std::to_string(options.sites) + ": it lies between 1 and that");
  }
  if (options.sites < 1 || options.sites > static_cast<int>(hub::kSitesMax)) {
    throw UsageError("a run has 1 to " + std::to_string(hub::kSitesMax) + " sites (--sites), not " +
                     std::to_string(options.sites));
  }
  check_times(options);
  return options;
}

}  // namespace thinwire
