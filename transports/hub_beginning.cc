// How a run begins at a hub, or goes on there after an earlier hub, or after this one was left.
#include <algorithm>

#include "transports/hub_body_internal.h"
#include "transports/timeouts_internal.h"

namespace thinwire::hub {

Claims claims_of(const Hello& hello) {
  Claims claims;
  if (hello.taking != kNoStep) return claims;
  claims.below = hello.next_round;
  for (const RoundHash& one : hello.recent) claims.hashes[key_of(one.slot)] = one.hash;
  for (const Slot& slot : hello.ahead) claims.ahead.insert(key_of(slot));
  return claims;
}

// Has the site results that this hub neither made nor was told of? Then the run went on at another
// hub meanwhile. What this one has judged already is no news.
bool Core::Body::been_elsewhere(const Hello& hello) const {
  if (!begun_ || hello.hubs <= 1 || hello.taking != kNoStep || hello.number == kNoNumber)
    return false;
  const auto site = sites_.find(hello.site);
  if (site != sites_.end() && site->second.process == hello.process &&
      (site->second.outdated || site->second.told == claims_of(hello)))
    return false;
  if (hello.next_round > head_) return true;
  return std::ranges::any_of(hello.recent, [&](const RoundHash& one) {
    const auto known = history_.find(key_of(one.slot));
    return known == history_.end() ? one.slot.round.number >= began_at_ : known->second != one.hash;
  });
}

// Too few sites are here for this hub to be right: it forgets what it knows, as if it were started
// again, and learns the run from its sites.
void Core::Body::begin_anew() {
  log("the run has gone on at another hub; this one begins anew");
  for (auto& [name, site] : sites_) send(site, Pong{epoch_, false, token(), first_open()});
  ++id_;
  begun_ = false;
  sites_.clear();
  numbered_.clear();
  peers_.clear();
  common_.reset();
  open_.clear();
  closed_.clear();
  fetches_.clear();
  history_.clear();
  durations_.clear();
  paces_.clear();
  spoken_of_.reset();
  began_at_ = head_ = kept_from_ = 0;
  bytes_open_ = bytes_closed_ = bytes_fetched_ = 0;
  enough_at_ = kNever;
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
  const std::size_t here = sites_.size();
  const bool all = here == static_cast<std::size_t>(options_.sites);
  const bool enough =
      options_.min_sites > 0 && here >= static_cast<std::size_t>(options_.min_sites);
  enough_at_ = enough ? std::min(enough_at_, now_) : kNever;
  const bool fresh = evidence_at() == kNever;
  const double since = fresh ? enough_at_ : evidence_at();
  if (!all && now_ < since + timeouts::restart_wait(options_.peer_timeout_s)) return;
  const bool holders = std::any_of(sites_.begin(), sites_.end(), [](const auto& entry) {
    return entry.second.number != kNoNumber && entry.second.taking == kNoStep;
  });
  if (!fresh && !holders) return;  // all wait for a state that none of them has
  if (!all) {
    log("the run " + std::string(fresh ? "begins" : "goes on") + " with " + std::to_string(here) +
        " of " + std::to_string(options_.sites) + " sites");
  }
  begin();
}

void Core::Body::begin() {
  begun_ = true;
  choose_history();
  give_numbers();
  for (const auto& [name, site] : sites_) {
    if (site.taking == kNoStep) head_ = std::max(head_, site.claims.below);
    epoch_ = std::max(epoch_, site.epoch);
  }
  began_at_ = head_;
  ++epoch_;
  kept_from_ = head_ > options_.rounds_kept ? head_ - options_.rounds_kept : 0;
  log("the run begins at round " + std::to_string(head_) + ", epoch " + std::to_string(epoch_));
  // Those that have the run's state first: the others take it from them.
  for (const bool all : {false, true}) {
    for (auto& [name, site] : sites_) {
      if (!site.active && (all || useless(site).empty())) admit(site);
    }
  }
}

// By name at the start of a run; afterwards each has the one that an earlier hub gave it. Where two
// have the same, as when a hub had given a place away, the one that is further in the run keeps it.
void Core::Body::give_numbers() {
  const bool under_way = evidence_at() < kNever;
  numbered_.assign(static_cast<std::size_t>(options_.sites), nullptr);
  std::vector<Site*> all, others;
  for (auto& [name, site] : sites_) all.push_back(&site);
  std::ranges::stable_sort(all, {}, [](const Site* site) {
    return std::pair(site->taking != kNoStep, ~site->claims.below);
  });
  for (Site* site : all) {
    const bool free = site->number != kNoNumber && !numbered_[site->number];
    if (free) numbered_[site->number] = site;
    if (!free) others.push_back(site);
  }
  std::sort(others.begin(), others.end(),
            [](const Site* a, const Site* b) { return a->name < b->name; });
  auto place = numbered_.begin();
  for (Site* site : others) {
    place = std::find(place, numbered_.end(), nullptr);
    *place = site;
    const auto number = static_cast<std::uint32_t>(place - numbered_.begin());
    if (under_way) {
      give_place(*site, number);
    } else {
      site->number = number;
    }
  }
}

}  // namespace thinwire::hub
