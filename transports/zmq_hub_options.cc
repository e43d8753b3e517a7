#include <utility>

#include "thinwire/error.h"
#include "transports/hub_messages_internal.h"
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
  using std::chrono::milliseconds;
  constexpr milliseconds kDay{86'400'000};
  if (options.peer_timeout < milliseconds(100) || options.peer_timeout > kDay) {
    throw UsageError("--peer-timeout lies between 0.1 s and a day");
  }
  if (options.round_deadline < milliseconds(100) || options.round_deadline > kDay) {
    throw UsageError("--round-deadline lies between 0.1 s and a day");
  }
  return options;
}

}  // namespace thinwire
