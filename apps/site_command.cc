#include "apps/site_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "apps/stop.h"
#include "apps/timeouts_command.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/log.h"
#include "transports/zmq_address_internal.h"
#include "transports/zmq_names_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire::app {

std::string shared_settings(const RunOptions& options, const Text& text) {
  constexpr std::array<std::string_view, 14> kOwn{
      "data =",         "out =",      "threads =",       "link =",  "eval_every =",
      "eval_windows =", "sharding =", "prefetch =",      "trace =", "recompute =",
      "guard =",        "spike =",    "compare_every =", "device ="};
  std::string shared;
  std::istringstream lines(options.config);
  for (std::string line; std::getline(lines, line);) {
    bool own = line.empty();
    for (std::string_view key : kOwn) own = own || line.starts_with(key);
    if (!own) shared += line + "\n";
  }
  const ByteView bytes = std::as_bytes(text.bytes());
  return shared + fmt::format("text = {} bytes, hash {:016x}\n", bytes.size(), hash64(bytes));
}

void check_site(const SiteCommand& command, const RunOptions& options) {
  if (command.site.empty()) {
    if (!command.hubs.empty()) throw UsageError("--hub needs --site NAME, this site's name");
    return;
  }
  if (command.hubs.empty())
    throw UsageError("--site needs --hub tcp://HOST:PORT, where sites meet");
  if (options.inside.sharding == Sharding::none && options.ranks > 1) {
    throw UsageError(
        "a site of several ranks shares its model; take --sharding optimizer, gradient "
        "or full");
  }
  check_timeouts(command);
  for (const std::string& hub : command.hubs) parse_address(hub, AddressUse::dial);
  if (options.guard.policy == GuardPolicy::roll_back)
    throw UsageError("a site cannot go back alone; take --guard skip or stop");
  if (options.seeds != 1) throw UsageError("a site trains with one seed; leave --seeds away");
}

namespace {

// A name that is mistyped is known at once, but the DNS may come back: said, and tried again.
void warn_of_names(const SiteCommand& command) {
  using std::chrono::milliseconds;
  for (const std::string& hub : command.hubs) {
    const HostPort address = parse_address(hub, AddressUse::dial);
    Lookup lookup(address);
    const milliseconds most = milliseconds_of("--connect-timeout", command.connect_timeout_s);
    if (!lookup.wait(std::min(milliseconds(2'000), most)) || lookup.addresses().empty()) {
      log_warn(fmt::format("site {}: {}; tried again for {:.6g} s", command.site, lookup.failure(),
                           command.connect_timeout_s));
    }
    if (is_link_local(address)) {
      log_warn(fmt::format("site {}: {} is a link-local address: it is known on this cable alone",
                           command.site, address.host));
    }
  }
}

}  // namespace

std::unique_ptr<ZmqLink> dial(const SiteCommand& command, const RunOptions& options,
                              const Text& text, GoOn from) {
  ZmqLinkOptions link;
  link.first_round = from.first_round;
  link.rounds = std::move(from.rounds);
  link.gives_state = !command.place;  // of processes, rank 0 alone is here
  link.hubs = command.hubs;
  link.hub_key = command.hub_key;
  if (!command.keys_file.empty()) link.keys = read_zmq_keys(command.keys_file);
  link.run = command.run;
  link.site = command.site;
  link.ranks = options.ranks;
  link.connect_timeout = milliseconds_of("--connect-timeout", command.connect_timeout_s);
  link.peer_timeout = milliseconds_of("--peer-timeout", command.peer_timeout_s);
  link.hub_timeout = milliseconds_of("--hub-timeout", command.hub_timeout_s);
  const std::string shared = shared_settings(options, text);
  warn_of_names(command);
  link.stop = &stop_flag();
  const OnStop bounded([] {});
  log_info("site " + command.site + ": waiting for the run to begin at " + command.hubs.front());
  auto opened = std::make_unique<ZmqLink>(link, hash64(std::string_view(shared)), shared);
  if (opened->sites() != options.sites) {
    throw UsageError(
        fmt::format("the hub's run has {} sites, this site was told of {}; give --sites {}",
                    opened->sites(), options.sites, opened->sites()));
  }
  log_info(fmt::format("site {}: the run begins; this is site {} of {}", command.site,
                       opened->site(), opened->sites()));
  return opened;
}

}  // namespace thinwire::app
