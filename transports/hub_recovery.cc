// Rounds that an earlier hub closed. Sites that have their results say so in their first hello;
// such a round is never decided again while one of them is here, but fetched from it.
#include <algorithm>

#include "transports/hub_body_internal.h"
#include "transports/timeouts_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kHistoryMax = 1024;
constexpr int kAsksMax = 30;  // for a round; a large one takes its time

bool equal(const std::vector<SharedFrame>& a, const std::vector<SharedFrame>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SharedFrame& x, const SharedFrame& y) {
                      return x.site == y.site && x.bytes == y.bytes;
                    });
}

std::size_t frame_bytes(const Bundle& bundle) {
  std::size_t bytes = 0;
  for (const SharedFrame& frame : bundle.frames) bytes += frame.bytes.size();
  return bytes;
}

}  // namespace

bool Core::Body::held(const Key& key) const {
  if (closed_.contains(key)) return false;
  return std::any_of(sites_.begin(), sites_.end(), [&](const auto& entry) {
    return entry.second.active && entry.second.claims.has(key);
  });
}

// Has the claimant another result of a round than the run? Of one that this hub has decided itself
// it must have the very same.
bool Core::Body::conflicts(const Claims& claims) const {
  for (const auto& [key, hash] : claims.hashes) {
    const auto known = history_.find(key);
    if (known != history_.end() && known->second != hash) return true;
  }
  return std::any_of(closed_.begin(), closed_.end(), [&](const auto& entry) {
    return entry.second.decided_here && claims.has(entry.first) &&
           !claims.hashes.contains(entry.first);
  });
}

// After a restart: sites whose results differ cannot all be right, as when one alone heard the end
// of a round that another hub then decided anew. Most are right; of equals those who are further.
void Core::Body::choose_history() {
  std::vector<Site*> holders;
  for (auto& [name, site] : sites_) {
    if (site.number != kNoNumber && site.taking == kNoStep) holders.push_back(&site);
  }
  const auto agree = [](const Site& a, const Site& b) {
    return std::none_of(a.claims.hashes.begin(), a.claims.hashes.end(), [&](const auto& one) {
      const auto other = b.claims.hashes.find(one.first);
      return other != b.claims.hashes.end() && other->second != one.second;
    });
  };
  const Site* best = nullptr;
  std::pair<std::ptrdiff_t, std::uint64_t> most;
  for (const Site* one : holders) {
    const auto friends = std::count_if(holders.begin(), holders.end(),
                                       [&](const Site* other) { return agree(*one, *other); });
    const std::pair rank(friends, one->claims.below);
    if (best && rank <= most) continue;
    best = one;
    most = rank;
  }
  for (Site* one : holders) {
    if (agree(*one, *best)) continue;
    refuse("outdated",
           "site " + one->name + " has other results of rounds than site " + best->name);
    one->taking = kAnyStep;
    one->claims = {};
  }
}

void Core::Body::learn(const Key& key, std::uint64_t hash) {
  history_.emplace(key, hash);
  while (history_.size() > kHistoryMax) history_.erase(history_.begin());
}

void Core::Body::fetch(const Key& key) {
  if (fetches_.contains(key) || closed_.contains(key) || key.number < kept_from_) return;
  Retrieval& fetch = fetches_[key];
  fetch.parts.resize(common_->parts);
  if (ask(key, fetch)) return;
  fetches_.erase(key);
  if (held(key)) give_up(key);
}

// The next site that has it, in turn.
bool Core::Body::ask(const Key& key, Retrieval& fetch) {
  std::vector<Site*> holders;
  for (Site* site : numbered_) {
    if (site && site->active && site->claims.gives(key)) holders.push_back(site);
  }
  if (holders.empty()) return false;
  const auto last = std::find(holders.begin(), holders.end(), fetch.asked);
  const bool wrap = last == holders.end() || last + 1 == holders.end();
  Site& next = wrap ? *holders.front() : **(last + 1);
  fetch.asked = &next;
  fetch.again = now_ + timeouts::kMissingEach;
  ++fetch.asked_times;
  for (std::uint32_t part = 0; part < fetch.parts.size(); ++part) {
    if (!fetch.parts[part]) send(next, Missing{slot_of(key, part)});
  }
  return true;
}

void Core::Body::ask_again() {
  std::optional<Key> lost;
  for (auto it = fetches_.begin(); it != fetches_.end();) {
    Retrieval& fetch = it->second;
    if (fetch.asked_times > kAsksMax) {  // who needs it takes the state over
      kept_from_ = std::max(kept_from_, it->first.number + 1);
      log("round " + std::to_string(it->first.number) + ": nobody has kept its result");
      for (const auto& part : fetch.parts) bytes_fetched_ -= part ? frame_bytes(*part) : 0;
      it = fetches_.erase(it);
      continue;
    }
    const bool due = !fetch.asked->active || now_ >= fetch.again;
    if (!due || ask(it->first, fetch)) {
      ++it;
      continue;
    }
    // Who had it is gone: the round is open again, and its posts are here or come again.
    if (held(it->first)) {
      lost = (it++)->first;
      continue;
    }
    log("round " + std::to_string(it->first.number) + ": no site is left that has its result");
    for (const auto& part : fetch.parts) bytes_fetched_ -= part ? frame_bytes(*part) : 0;
    it = fetches_.erase(it);
  }
  if (lost) give_up(*lost);
}

// A site that has not kept the result of a round that it has behind it answers with a question.
void Core::Body::lacks(Site& site, const Key& key) {
  site.claims.lacks = std::max(site.claims.lacks, key.number + 1);
  const auto fetch = fetches_.find(key);
  if (fetch != fetches_.end() && !ask(key, fetch->second)) give_up(key);
}

// A round that was closed, and nobody has kept its result: whoever needs it, or one before it,
// takes the run's state over.
void Core::Body::give_up(const Key& key) {
  log("round " + std::to_string(key.number) + ": no site has kept its result");
  kept_from_ = std::max(kept_from_, key.number + 1);
  for (auto it = fetches_.begin(); it != fetches_.end() && it->first.number < kept_from_;) {
    for (const auto& part : it->second.parts) bytes_fetched_ -= part ? frame_bytes(*part) : 0;
    it = fetches_.erase(it);
  }
  for (auto it = open_.begin(); it != open_.end() && it->first.number < kept_from_;) {
    release(it->second);
    it = open_.erase(it);
  }
  drop_old();
  // Before they ask: those that have it may be done with the run by then.
  for (auto& [name, site] : sites_) {
    const bool needs = site.active && !site.takeover && site.next_round <= key.number &&
                       !site.claims.has(key) && site.step <= key.number + kRoundsAhead;
    if (needs) take_over(site, "needs round " + std::to_string(key.number) + ", which is not kept");
  }
}

void Core::Body::bundle(Site& from, Bundle bundle) {
  const Key key = key_of(bundle.slot);
  const std::string round = "round " + std::to_string(key.number);
  if (!from.claims.has(key) || !sound(bundle)) {
    return refuse("bundle", "site " + from.name + " sends a result of " + round +
                                " that nobody can use or asked for");
  }
  if (const std::string whose = unlike(key, bundle); !whose.empty()) {
    return take_over(from, "has another result of " + round + " than " + whose);
  }
  const auto found = fetches_.find(key);
  if (found == fetches_.end()) return;
  std::optional<Bundle>& part = found->second.parts[bundle.slot.part];
  if (part) return;
  const std::size_t bytes = frame_bytes(bundle);
  if (bytes > options_.bytes_max - std::min(options_.bytes_max, bytes_open_ + bytes_fetched_)) {
    return refuse("memory", "the result of " + round + " from site " + from.name);
  }
  bytes_fetched_ += bytes;
  part = std::move(bundle);
  const auto& parts = found->second.parts;
  if (std::all_of(parts.begin(), parts.end(), [](const auto& p) { return p.has_value(); }))
    close_fetched(key);
}

// Says of every site of the run whether it took part.
bool Core::Body::sound(const Bundle& bundle) const {
  const std::size_t sites = numbered_.size();
  if (bundle.slot.part >= common_->parts) return false;
  if (!bundle.absent.empty() && bundle.absent.back() >= sites) return false;
  if (bundle.slot.kind == Kind::reduce)
    return bundle.frames.size() == (bundle.absent.size() < sites ? 1u : 0u);
  if (!bundle.frames.empty() && bundle.frames.back().site >= static_cast<int>(sites)) return false;
  return bundle.frames.size() + bundle.absent.size() == sites;
}

// Whose result differs from this one; empty: nobody's.
std::string Core::Body::unlike(const Key& key, const Bundle& bundle) const {
  if (const auto closed = closed_.find(key); closed != closed_.end()) {
    const ClosedRound& round = closed->second;
    const bool same =
        round.absent == bundle.absent && equal(round.parts[bundle.slot.part], bundle.frames);
    return same ? "" : "the run";
  }
  const auto found = fetches_.find(key);
  if (found == fetches_.end()) return {};
  for (const auto& part : found->second.parts) {
    if (!part) continue;
    const bool other_part = part->slot.part != bundle.slot.part;
    if (part->absent != bundle.absent || !(other_part || equal(part->frames, bundle.frames)))
      return "another site";
  }
  return {};
}

void Core::Body::close_fetched(const Key& key) {
  Retrieval fetch = std::move(fetches_.extract(key).mapped());
  if (const auto open = open_.find(key); open != open_.end()) {
    release(open->second);
    open_.erase(open);
  }
  ClosedRound round;
  round.decided_here = false;
  round.absent = fetch.parts.front()->absent;
  round.epoch = fetch.parts.front()->slot.round.epoch;
  for (auto& part : fetch.parts) {
    bytes_fetched_ -= frame_bytes(*part);
    round.parts.push_back(std::move(part->frames));
  }
  keep(key, std::move(round));
}

}  // namespace thinwire::hub
