// Who is in the run. Before it begins sites gather; from then on their numbers are fixed.
#include <algorithm>

#include "transports/hub_body_internal.h"
#include "transports/hub_difference_internal.h"

namespace thinwire::hub {
namespace {

const char* const kLostState =
    "; the run goes on without it, and a site that lost its state cannot yet rejoin a running run";

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
  if (site.process != hello.process) {
    if (site.active || !begun_) {
      return turn_away(
          peer, hello, "name taken",
          {"the site " + site.name + " is already here; every site needs a name of " + "its own",
           false});
    }
    return turn_away(peer, hello, "lost state",
                     {"the process that was site " + site.name + " is gone" + kLostState, true});
  }
  move_to(site, peer);
  site.bytes_up += encoded_size(hello);
  site.last_seen = now_;
  if (!begun_) return;
  if (!site.expelled.empty()) return send(site, Refused{site.expelled, true});
  if (site.active) return welcome(site);
  ++epoch_;
  admit(site, hello.next_round);
}

void Core::Body::first_hello(const Peer& peer, const std::string& key, const Hello& hello) {
  if (hello.number != kNoNumber) {
    const auto same = std::find_if(sites_.begin(), sites_.end(), [&](const auto& entry) {
      return entry.second.number == hello.number;
    });
    if (same != sites_.end() || hello.number >= static_cast<std::uint32_t>(options_.sites)) {
      return turn_away(
          peer, hello, "number",
          {"site " + hello.site + " says it has number " + std::to_string(hello.number) +
               ", which is " +
               (same != sites_.end() ? "that of site " + same->first : "out of range in this run"),
           true});
    }
  }
  if (!common_) common_ = hello;
  accept(peer, key, hello);
  log("site " + hello.site + " at " + address(peer) + " says hello, " +
      std::to_string(sites_.size()) + " of " + std::to_string(options_.sites));
  try_to_begin();
}

// The run goes on; a site may yet come that an earlier hub had let in.
void Core::Body::late_hello(const Peer& peer, const std::string& key, const Hello& hello) {
  const bool place = std::count(numbered_.begin(), numbered_.end(), nullptr) > 0;
  if (!place) {
    std::string names;
    for (const auto& [name, site] : sites_) names += (names.empty() ? "" : ", ") + name;
    return turn_away(
        peer, hello, "unknown name",
        {"the run has begun with the sites " + names + "; " + hello.site + " is not one of them",
         true});
  }
  if (hello.number >= numbered_.size() || numbered_[hello.number] != nullptr) {
    return turn_away(peer, hello, "lost state",
                     {"site " + hello.site + " has no number in this run" + kLostState, true});
  }
  Site& site = accept(peer, key, hello);
  numbered_[site.number] = &site;
  ++epoch_;
  admit(site, hello.next_round);
}

Site& Core::Body::accept(const Peer& peer, const std::string& key, const Hello& hello) {
  Site& site = sites_[hello.site];
  site.name = hello.site;
  site.process = hello.process;
  site.key = key;
  site.number = hello.number;
  site.epoch = hello.epoch;
  site.claims.below = hello.next_round;
  for (const Slot& slot : hello.ahead) site.claims.ahead.insert(key_of(slot));
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

// When the first site that an earlier hub had numbered said hello.
double Core::Body::evidence_at() const {
  double first = kNever;
  for (const auto& [name, site] : sites_) {
    if (site.number != kNoNumber) first = std::min(first, site.since);
  }
  return first;
}

void Core::Body::try_to_begin() {
  const bool all = sites_.size() == static_cast<std::size_t>(options_.sites);
  if (!all && now_ < evidence_at() + options_.peer_timeout_s) return;
  if (!all) {
    std::vector<std::string> nobody;
    for (auto& [name, site] : sites_) {
      if (site.number != kNoNumber) continue;
      send(site, Refused{"site " + name + " has no number in this run" + kLostState, true});
      nobody.push_back(name);
    }
    for (const std::string& name : nobody) forget(name);
    log("the run goes on with " + std::to_string(sites_.size()) + " of " +
        std::to_string(options_.sites) + " sites");
  }
  begin();
}

void Core::Body::begin() {
  begun_ = true;
  give_numbers();
  for (const auto& [name, site] : sites_) {
    head_ = std::max(head_, site.claims.below);
    epoch_ = std::max(epoch_, site.epoch);
  }
  ++epoch_;
  kept_from_ = head_ > options_.rounds_kept ? head_ - options_.rounds_kept : 0;
  log("the run begins at round " + std::to_string(head_) + ", epoch " + std::to_string(epoch_));
  for (auto& [name, site] : sites_) admit(site, site.claims.below);
}

void Core::Body::give_numbers() {
  const bool under_way = evidence_at() < kNever;
  numbered_.assign(static_cast<std::size_t>(options_.sites), nullptr);
  for (auto& [name, site] : sites_) {
    if (site.number != kNoNumber) numbered_[site.number] = &site;
  }
  auto place = numbered_.begin();
  for (auto& [name, site] : sites_) {
    if (site.number != kNoNumber) continue;
    place = std::find(place, numbered_.end(), nullptr);
    *place = &site;
    site.number = static_cast<std::uint32_t>(place - numbered_.begin());
    site.unproven = under_way;
  }
}

void Core::Body::admit(Site& site, std::uint64_t next_round) {
  if (conflicts(site.claims)) {
    return expel(site, "other history",
                 "site " + site.name + " has results of rounds that an earlier hub closed and " +
                     "that this hub, which had to go on without the site, closed anew");
  }
  if (next_round < kept_from_) {
    return expel(site, "too far behind",
                 "site " + site.name + " is too far behind: it has the rounds below " +
                     std::to_string(next_round) + ", the hub can give those from " +
                     std::to_string(kept_from_));
  }
  // Nobody was there to keep a deadline for.
  if (active_sites() == 0) {
    for (auto& [key, round] : open_) round.first = now_;
  }
  site.active = true;
  head_ = std::max(head_, site.claims.below);
  log("site " + site.name + " at " + address(site.peer) + " is in, number " +
      std::to_string(site.number) + ", epoch " + std::to_string(epoch_));
  welcome(site);
  for (const Key& key : site.claims.ahead) fetch(key);
  for (const auto& [key, round] : open_) {
    if (site.claims.has(key)) fetch(key);
  }
}

void Core::Body::welcome(Site& site) {
  send(site, Welcome{.site = site.number,
                     .sites = static_cast<std::uint32_t>(options_.sites),
                     .hub = options_.hub,
                     .next_round = first_open(),
                     .epoch = epoch_});
}

void Core::Body::leave(Site& site, const std::string& why) {
  if (!site.active) return;
  site.active = false;
  ++epoch_;
  log("site " + site.name + " " + why + "; epoch " + std::to_string(epoch_));
}

void Core::Body::expel(Site& site, const std::string& reason, const std::string& why) {
  leave(site, "is shut out");
  site.expelled = why;
  refuse(reason, why);
  send(site, Refused{why, true});
}

void Core::Body::forget(const std::string& name) {
  peers_.erase(sites_[name].peer);
  sites_.erase(name);
  if (sites_.empty()) common_.reset();
}

void Core::Body::check_liveness() {
  std::vector<std::string> silent;
  for (const auto& [name, site] : sites_) {
    const bool awaited = site.active || !begun_;
    if (awaited && now_ >= site.last_seen + options_.peer_timeout_s) silent.push_back(name);
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

std::size_t Core::Body::active_sites() const {
  return static_cast<std::size_t>(std::count_if(
      sites_.begin(), sites_.end(), [](const auto& entry) { return entry.second.active; }));
}

std::uint64_t Core::Body::first_open() const {
  for (const auto& [key, round] : open_) {
    if (!held(key)) return std::min(head_, key.number);
  }
  return head_;
}

}  // namespace thinwire::hub
