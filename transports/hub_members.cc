// Who is in the run. Before it begins sites gather; from then on their numbers are fixed.
#include <algorithm>

#include "transports/hub_body_internal.h"
#include "transports/hub_difference_internal.h"
#include "transports/timeouts_internal.h"

namespace thinwire::hub {
namespace {

// A site that said goodbye, or is silent for so many peer timeouts, may be replaced by a new one.
constexpr double kPlaceKept = 6.0;
// Rounds wait for a site that is so many behind the first open one.
constexpr std::uint64_t kNear = 2;

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

void Core::Body::hello(const Peer& peer, const std::string& key, Hello hello) {
  if (hello.run != options_.run) {
    return turn_away(peer, hello, "run",
                     {"the run ids differ: the hub serves " + quoted(options_.run) + ", site " +
                          hello.site + " asks for " + quoted(hello.run),
                      true});
  }
  if (common_ && hello.parts != common_->parts) {
    return turn_away(peer, hello, "parts",
                     {"the ranks of a site differ: " + std::to_string(common_->parts) +
                          " in this run, " + std::to_string(hello.parts) + " at site " + hello.site,
                      true});
  }
  if (common_ && (hello.agreement != common_->agreement || hello.agreed != common_->agreed)) {
    return turn_away(peer, hello, "agreement", {difference(*common_, hello), true});
  }
  if (hello.hubs > 1 && 2 * options_.min_sites <= options_.sites) {
    return turn_away(peer, hello, "quorum",
                     {"site " + hello.site +
                          " knows several hubs, and two halves of a divided run could go on " +
                          "apart: start every hub with --min-sites above half of its " +
                          std::to_string(options_.sites) + " places, or give the sites one hub",
                      true});
  }
  if (been_elsewhere(hello) && !enough()) begin_anew();
  const auto found = sites_.find(hello.site);
  if (found != sites_.end()) return hello_again(found->second, peer, key, hello);
  begun_ ? late_hello(peer, key, hello) : first_hello(peer, key, hello);
}

void Core::Body::turn_away(const Peer& peer, const Hello& hello, const std::string& reason,
                           Refused refused) {
  refuse(reason, "site " + hello.site + " at " + address(peer) + ": " + refused.why);
  send(peer, std::move(refused));
}

void Core::Body::hello_again(Site& site, const Peer& peer, const std::string& key,
                             const Hello& hello) {
  if (site.key != key) {
    return turn_away(peer, hello, "key",
                     {"the name " + site.name + " belongs to another key", true});
  }
  if (site.process != hello.process) return other_process(site, peer, key, hello);
  const bool odd = been_elsewhere(hello);
  move_to(site, peer);
  site.bytes_up += encoded_size(hello);
  site.last_seen = now_;
  site.next_round = hello.next_round;
  // One that never heard that it must take the state over says nothing of it; the verdict stands.
  if (site.takeover && hello.taking == kNoStep && hello.taken == site.takeover->step) {
    if (site.active) arrived(site);
    site.outdated = false;
  }
  site.taking = hello.taking == kNoStep && site.outdated ? kAnyStep : hello.taking;
  if (!begun_) return;
  if (odd) {
    ++epoch_;
    return take_over(site, "has been at another hub and has other results of rounds than the run");
  }
  // Where it asks for the state, and the hub knows of no takeover, its replica has gone wrong.
  if (site.active && (site.takeover || hello.taking == kNoStep)) return welcome(site);
  ++epoch_;
  if (site.takeover && hello.taking == kNoStep) {  // not heard of, or done with and not said
    site.active = true;
    site.left = false;
    return welcome(site);
  }
  admit(site);
}

// The name's owner was killed and started again, or somebody else uses its name.
void Core::Body::other_process(Site& site, const Peer& peer, const std::string& key,
                               const Hello& hello) {
  const bool here = (site.active || !begun_) && !site.peer.empty();
  if (here) {
    send(site,
         Pong{epoch_, true, token(), first_open()});  // shows whether its connection is still there
    return turn_away(
        peer, hello, "name taken",
        {"the site " + site.name + " is already here; every site needs a name of its own", false});
  }
  if (!begun_) {
    forget(site.name);
    return first_hello(peer, key, hello);
  }
  leave(site, "is another process now");
  site.process = hello.process;
  site.hubs = hello.hubs;
  site.gives = hello.gives;
  site.left = false;
  site.next_round = 0;
  site.taking = kAnyStep;
  site.claims = {};
  site.since = site.last_seen = now_;
  site.bytes_up += encoded_size(hello);
  move_to(site, peer);
  ++epoch_;
  admit(site);
}

void Core::Body::first_hello(const Peer& peer, const std::string& key, const Hello& hello) {
  if (!number_fits(peer, hello)) return;
  if (!common_) common_ = hello;
  accept(peer, key, hello);
  log("site " + hello.site + " at " + address(peer) + " says hello, " +
      std::to_string(sites_.size()) + " of " + std::to_string(options_.sites));
  try_to_begin();
}

bool Core::Body::number_fits(const Peer& peer, const Hello& hello) {
  if (hello.number == kNoNumber || hello.number < static_cast<std::uint32_t>(options_.sites)) {
    return true;
  }
  turn_away(peer, hello, "number",
            {"site " + hello.site + " has number " + std::to_string(hello.number) +
                 " from another hub, this one has " + std::to_string(options_.sites) +
                 " places; start all hubs with the same --sites",
             true});
  return false;
}

// The run goes on. A site that an earlier hub had numbered has its place; a new one takes a free
// place and the run's state.
void Core::Body::late_hello(const Peer& peer, const std::string& key, const Hello& hello) {
  if (!number_fits(peer, hello)) return;
  const bool numbered = hello.number != kNoNumber && numbered_[hello.number] == nullptr;
  Site** place = numbered ? &numbered_[hello.number] : free_place();
  if (!place) {
    std::string names;
    for (const auto& [name, site] : sites_) names += (names.empty() ? "" : ", ") + name;
    return turn_away(
        peer, hello, "full",
        {"all " + std::to_string(numbered_.size()) + " places of the run are taken, by " + names +
             "; start the hub with more --sites",
         true});
  }
  if (*place) {
    log("the place of site " + (*place)->name + " is given to site " + hello.site);
    forget((*place)->name);
  }
  Site& site = accept(peer, key, hello);
  *place = &site;
  give_place(site, static_cast<std::uint32_t>(place - numbered_.data()));
  ++epoch_;
  admit(site);
}

// A place that was not its own brings the run's state with it: what is here under that number is
// another site's.
void Core::Body::give_place(Site& site, std::uint32_t number) {
  if (site.number == number) return;
  site.number = number;
  site.claims = {};
  if (site.taking == kNoStep) site.taking = kAnyStep;
}

// Never used, or given up, or not heard of for long.
Site** Core::Body::free_place() {
  for (Site*& place : numbered_) {
    if (!place) return &place;
  }
  for (Site*& place : numbered_) {
    if (!place->active && place->left) return &place;
  }
  for (Site*& place : numbered_) {
    const double silent = now_ - place->last_seen;
    if (!place->active && silent > kPlaceKept * options_.peer_timeout_s) return &place;
  }
  return nullptr;
}

Site& Core::Body::accept(const Peer& peer, const std::string& key, const Hello& hello) {
  Site& site = sites_[hello.site];
  site.name = hello.site;
  site.process = hello.process;
  site.key = key;
  site.number = hello.number;
  site.epoch = hello.epoch;
  site.hubs = hello.hubs;
  site.gives = hello.gives;
  site.next_round = hello.next_round;
  site.taking = hello.taking;
  site.claims = site.told = claims_of(hello);
  site.step = hello.next_round;
  site.since = site.last_seen = now_;
  site.bytes_up = encoded_size(hello);
  move_to(site, peer);
  return site;
}

void Core::Body::move_to(Site& site, const Peer& peer) {
  if (const auto other = peers_.find(peer); other != peers_.end() && other->second != &site) {
    other->second->peer.clear();  // one connection speaks for one site, the last it named
  }
  if (site.peer != peer) peers_.erase(site.peer);
  site.peer = peer;
  peers_[peer] = &site;
}

std::string Core::Body::useless(const Site& site) const {
  if (site.taking != kNoStep) return "needs the run's state";
  if (conflicts(site.claims)) {
    return "has other results of rounds than the run, which had to go on without it and closed "
           "them "
           "anew";
  }
  if (site.next_round < kept_from_) {
    return "is too far behind: it has the rounds below " + std::to_string(site.next_round) +
           ", the hub can give those from " + std::to_string(kept_from_);
  }
  return {};
}

void Core::Body::admit(Site& site) {
  site.takeover.reset();
  if (const std::string why = useless(site); !why.empty()) {
    if (site.taking == kNoStep) refuse("outdated", "site " + site.name + " " + why);
    if (!start_takeover(site, why)) return;
  }
  site.active = true;
  site.left = false;
  site.lease = -kNever;  // its hello may have been on its way for long
  if (site.claims.below > head_) {
    head_ = began_at_ = site.claims.below;
    if (head_ > options_.rounds_kept)
      kept_from_ = std::max(kept_from_, head_ - options_.rounds_kept);
  }
  for (const auto& [key, hash] : site.claims.hashes) learn(key, hash);
  log("site " + site.name + " at " + address(site.peer) + " is in, number " +
      std::to_string(site.number) + ", epoch " + std::to_string(epoch_));
  welcome(site);
  if (site.takeover) return;
  for (const Key& key : site.claims.ahead) fetch(key);
  std::vector<Key> had;
  for (const auto& [key, round] : open_) {
    if (site.claims.has(key)) had.push_back(key);
  }
  for (const Key& key : had) fetch(key);
  await_if_near(site);
}

void Core::Body::welcome(Site& site) {
  send(site, Welcome{.site = site.number,
                     .sites = static_cast<std::uint32_t>(options_.sites),
                     .hub = id_,
                     .next_round = first_open(),
                     .epoch = epoch_,
                     .takeover = site.takeover ? site.takeover->step : kNoStep,
                     .lease_ms = static_cast<std::uint32_t>(options_.peer_timeout_s * 1000.0)});
}

// Rounds go on without a site that catches up, until they have little to wait for.
void Core::Body::await_if_near(Site& site) {
  if (!begun_ || !site.active || site.awaited || site.takeover) return;
  if (site.step + kNear < first_open()) return;
  const bool stood_still = !enough();
  site.awaited = true;
  go_on(stood_still);
}

// Nobody could keep a deadline while the run stood still.
void Core::Body::go_on(bool stood_still) {
  if (!stood_still || !enough()) return;
  for (auto& [key, round] : open_) round.first = now_;
  spoken_of_.reset();  // the time in between says nothing about the pace
}

void Core::Body::leave(Site& site, const std::string& why) {
  if (!site.active) return;
  const bool went_on = enough();
  site.active = site.awaited = false;
  ++epoch_;
  log("site " + site.name + " " + why + "; epoch " + std::to_string(epoch_));
  if (went_on && !enough() && awaited_sites() > 0) {
    log("the run stands still with " + std::to_string(awaited_sites()) + " sites, it needs " +
        std::to_string(options_.min_sites));
  }
}

void Core::Body::forget(const std::string& name) {
  const auto found = sites_.find(name);
  peers_.erase(found->second.peer);
  sites_.erase(found);
  if (sites_.empty() && !begun_) common_.reset();
}

void Core::Body::check_liveness() {
  std::vector<std::string> silent;
  for (const auto& [name, site] : sites_) {
    const bool awaited = site.active || !begun_;
    if (awaited && now_ >= site.last_seen + timeouts::site_dead(options_.peer_timeout_s))
      silent.push_back(name);
  }
  for (const std::string& name : silent) {
    if (begun_) {
      leave(sites_[name], "has not been heard of for " + std::to_string(options_.peer_timeout_s) +
                              " s and is taken for dead");
    } else {
      log("site " + name + " is gone before the run began");
      forget(name);
    }
  }
}

std::size_t Core::Body::awaited_sites() const {
  return static_cast<std::size_t>(std::count_if(
      sites_.begin(), sites_.end(), [](const auto& entry) { return entry.second.awaited; }));
}

// Where sites know several hubs, one counts that has promised to speak to no other hub now.
bool Core::Body::enough() const {
  const auto counts = [&](const auto& entry) {
    const Site& site = entry.second;
    return site.awaited && (site.hubs <= 1 || now_ <= site.lease);
  };
  const auto count = std::count_if(sites_.begin(), sites_.end(), counts);
  return count >= std::max(1, options_.min_sites);
}

std::uint64_t Core::Body::first_open() const {
  for (const auto& [key, round] : open_) {
    if (!held(key)) return std::min(head_, key.number);
  }
  return head_;
}

}  // namespace thinwire::hub
