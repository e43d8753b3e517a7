// The way into a run under way: a site whose replica is of no use takes the run's state over from
// sites that have it (donors), in chunks that the hub relays, and applies the rounds that were
// closed meanwhile. Donors keep training; rounds wait for the site when it is near.
#include <algorithm>

#include "transports/hub_body_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kDonors = 2;
// A donor's copy must lie ahead of where it is when it hears of it; after each miss twice as far.
constexpr std::uint64_t kStepsAhead = 2;
constexpr int kTriesMax = 12;
// Rounds in flight at the start of a step: their results are not yet in the state.
constexpr std::uint64_t kDelayMax = 8;

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

// False: nobody is here who could give it.
bool Core::Body::start_takeover(Site& site, const std::string& why) {
  site.awaited = false;
  site.claims = {};
  site.outdated = true;
  drop_words(site);
  if (!choose_state(site)) {
    site.takeover.reset();
    site.active = false;
    send(site,
         Refused{"site " + site.name + " " + why + ", and no site is here that has it", false});
    return false;
  }
  site.step = site.takeover->step;
  log("site " + site.name + " " + why + "; it takes over the state of step " +
      std::to_string(site.takeover->step));
  return true;
}

void Core::Body::take_over(Site& site, const std::string& why) {
  refuse("outdated", "site " + site.name + " " + why);
  leave(site, "is out of step");
  if (!start_takeover(site, why)) return;
  site.active = true;
  ++epoch_;
  welcome(site);
}

bool Core::Body::choose_state(Site& site) {
  std::vector<Site*> donors;
  std::uint64_t newest = first_open();
  for (Site* one : numbered_) {
    if (!one || one == &site || !one->awaited || !one->gives) continue;
    donors.push_back(one);
    newest = std::max(newest, position(*one));
  }
  if (donors.empty()) return false;
  const int tries = site.takeover ? site.takeover->tries + 1 : 0;
  Takeover takeover;
  takeover.tries = std::min(tries, kTriesMax);
  // One that it began to take over before this hub was there: whoever has it will say so.
  const auto usable = [&](std::uint64_t step) { return less(step, kDelayMax) >= kept_from_; };
  if (site.taking < kAnyStep && !site.takeover && usable(site.taking)) {
    takeover.step = site.taking;
    for (const Site* one : donors) takeover.donors.push_back(one->number);
    site.takeover = std::move(takeover);
    // Rounds that it will need and that the sites do not keep for as long as the rest may take.
    for (const auto& [key, hash] : history_) {
      if (key.number >= less(site.taking, kDelayMax) && held(key)) fetch(key);
    }
    return true;
  }
  if (tries == 0) {
    for (const Site* one : numbered_) {
      if (!one || one == &site || !one->active || !one->takeover) continue;
      const bool given = std::ranges::any_of(one->takeover->donors, [&](std::uint32_t number) {
        return numbered_[number] != &site && std::ranges::count(donors, numbered_[number]) > 0;
      });
      if (!given || !usable(one->takeover->step)) continue;
      site.takeover = one->takeover;  // the copy is there
      return true;
    }
  }
  // While the run stands still sites are in the step of their last post, and stay there.
  takeover.step = newest;
  if (enough()) takeover.step += kStepsAhead << takeover.tries;
  std::rotate(donors.begin(),
              donors.begin() + static_cast<std::ptrdiff_t>(donor_turn_++ % donors.size()),
              donors.end());
  for (Site* one : donors) {
    if (takeover.donors.size() == kDonors) break;
    if (!enough() && position(*one) != newest) continue;
    takeover.donors.push_back(one->number);
    send(*one, Snapshot{takeover.step});
  }
  if (takeover.donors.empty()) return false;
  site.takeover = std::move(takeover);
  return true;
}

void Core::Body::arrived(Site& site) {
  log("site " + site.name + " has the state of step " + std::to_string(site.takeover->step) +
      "; round " + std::to_string(first_open()) + " is open");
  site.next_round = less(site.takeover->step, kDelayMax);
  site.takeover.reset();
  site.taking = kNoStep;
  site.outdated = false;
  await_if_near(site);
}

void Core::Body::fetch_state(Site& site, Fetch fetch) {
  if (!site.takeover || fetch.step != site.takeover->step || fetch.part >= common_->parts) return;
  Takeover& takeover = *site.takeover;
  std::erase_if(takeover.donors, [&](std::uint32_t number) {
    const Site* donor = numbered_[number];
    return !donor || !donor->active || donor->takeover.has_value();
  });
  if (takeover.donors.empty()) return take_over(site, "has lost those who gave it the run's state");
  // The run has come to a halt before that step, perhaps for want of this very site.
  const auto before = [&](std::uint32_t number) {
    return position(*numbered_[number]) < takeover.step;
  };
  if (!enough() && std::ranges::all_of(takeover.donors, before)) {
    if (!choose_state(site)) return;
    site.step = site.takeover->step;
    return welcome(site);
  }
  fetch.site = site.number;
  // In turn: a chunk that is asked for again is asked of another one.
  send(*numbered_[takeover.donors[takeover.asked++ % takeover.donors.size()]], fetch);
}

void Core::Body::chunk(Site& from, Chunk chunk) {
  Site* to = chunk.site < numbered_.size() ? numbered_[chunk.site] : nullptr;
  if (!to || !to->active || !to->takeover || to->takeover->step != chunk.step) return;
  const auto& donors = to->takeover->donors;
  if (std::find(donors.begin(), donors.end(), from.number) == donors.end()) return;
  send(*to, std::move(chunk));
}

void Core::Body::no_state(Site& from, std::uint64_t step) {
  for (Site* site : numbered_) {
    if (!site || !site->active || !site->takeover || site->takeover->step != step) continue;
    std::erase(site->takeover->donors, from.number);
    if (!site->takeover->donors.empty()) continue;
    if (!choose_state(*site)) {
      take_over(*site, "finds nobody who has the run's state");
      continue;
    }
    site->step = site->takeover->step;
    welcome(*site);
  }
}

// No site is further than what the hub takes of it, whatever it says.
std::uint64_t Core::Body::position(const Site& site) const {
  return std::min(site.step, first_open() + kRoundsAhead);
}

// What its earlier life or its useless replica has said of rounds that are open does not count, and
// of those that are closed it needs its own frames too.
void Core::Body::drop_words(const Site& site) {
  for (auto& [key, round] : closed_) {
    if (site.number < round.processes.size()) round.processes[site.number] = 0;
  }
  for (auto& [key, round] : open_) {
    Posts& posts = round.by_site[site.number];
    for (const auto& frame : posts.parts) bytes_open_ -= frame ? frame->size() : 0;
    posts = {};
  }
}

std::uint64_t Core::Body::needed_from() const {
  std::uint64_t from = kNoStep;
  for (const Site* site : numbered_) {
    if (!site || !site->active || site->awaited) continue;
    from =
        std::min(from, less(site->takeover ? site->takeover->step : site->next_round, kDelayMax));
  }
  return from;
}

}  // namespace thinwire::hub
