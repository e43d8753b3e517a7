#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "thinwire/error.h"
#include "transports/loopback_hub_internal.h"

namespace thinwire {
namespace {

// Rounds kept for sites that collect late; far more than the longest delay.
constexpr std::size_t kRoundsKept = 64;

}  // namespace

LoopbackHub::LoopbackHub(const LoopbackOptions& options)
    : options_(options), members_(static_cast<std::size_t>(options.sites) * options.ranks) {
  if (!options_.link) return;
  for (std::size_t member = 0; member < members_.size(); ++member) {
    members_[member].up.emplace(*options_.link, options_.seed + 2 * member);
    members_[member].down.emplace(*options_.link, options_.seed + 2 * member + 1);
  }
}

LoopbackHub::Entry& LoopbackHub::entry(const Round& round) {
  Entry& entry = rounds_[round];
  if (entry.frames.empty()) {
    entry.frames.resize(members_.size());
    entry.arrivals.resize(members_.size(), 0.0);
    entry.included.resize(options_.sites, false);
  }
  return entry;
}

void LoopbackHub::post(int member, const Round& round, Bytes frame) {
  std::lock_guard lock(mutex_);
  Member& from = members_[member];
  from.traffic.bytes_sent += frame.size();
  const bool gone = forgotten_ && round <= *forgotten_;
  if (gone || entry(round).closed || entry(round).frames[member]) {
    ++from.traffic.refused;
    return;
  }
  Entry& to = entry(round);
  to.arrivals[member] =
      from.up ? from.up->arrival(from.now, static_cast<double>(frame.size())) : from.now;
  to.frames[member] = std::move(frame);
  if (++to.posted == static_cast<int>(members_.size())) close(to);
}

double LoopbackHub::arrival(const Entry& entry, int site) const {
  double last = 0.0;
  for (int member = site * options_.ranks; member < (site + 1) * options_.ranks; ++member) {
    if (!entry.frames[member]) return std::numeric_limits<double>::infinity();
    last = std::max(last, entry.arrivals[member]);
  }
  return last;
}

// One set of contributors for everybody: the sites that arrived within the deadline of the first.
void LoopbackHub::close(Entry& entry) {
  double first = std::numeric_limits<double>::infinity();
  for (int site = 0; site < options_.sites; ++site) first = std::min(first, arrival(entry, site));
  const double last = first + options_.round_deadline_s;
  for (int site = 0; site < options_.sites; ++site) {
    const double at = arrival(entry, site);
    entry.included[site] = at <= last && std::isfinite(at);
    if (!entry.included[site]) {
      if (std::isfinite(last)) entry.closed_at = std::max(entry.closed_at, last);
      for (int member = site * options_.ranks; member < (site + 1) * options_.ranks; ++member) {
        if (entry.frames[member]) ++members_[member].traffic.refused;
      }
    } else {
      entry.closed_at = std::max(entry.closed_at, at);
    }
  }
  entry.closed = true;
  changed_.notify_all();
}

RoundResult LoopbackHub::collect(int member, const Round& round) {
  std::unique_lock lock(mutex_);
  if (forgotten_ && round <= *forgotten_) {
    throw Error("site " + std::to_string(site_of(member)) + " asks for round " +
                std::to_string(round.number) + ", which is no longer kept; it is too far behind");
  }
  Entry& wanted = entry(round);
  ++wanted.waiting;
  if (!changed_.wait_for(lock, options_.deadline,
                         [&] { return wanted.closed || !failure_.empty(); })) {
    close(wanted);
  }
  --wanted.waiting;
  if (!wanted.closed) throw Error(failure_);
  RoundResult heard = result(member, wanted);
  ++wanted.collected;
  forget_old(round);
  return heard;
}

bool LoopbackHub::missed(int member, const Round& round) const {
  std::lock_guard lock(mutex_);
  const auto it = rounds_.find(round);
  return it != rounds_.end() && it->second.closed && !it->second.included[site_of(member)];
}

RoundResult LoopbackHub::result(int member, const Entry& entry) {
  RoundResult heard;
  std::uint64_t bytes = 0;
  const int rank = member % options_.ranks;
  for (int site = 0; site < options_.sites; ++site) {
    if (!entry.included[site]) {
      heard.absent.push_back(site);
      continue;
    }
    const int from = site * options_.ranks + rank;
    heard.frames.push_back({site, *entry.frames[from]});
    if (from != member) bytes += entry.frames[from]->size();
  }
  Member& to = members_[member];
  to.traffic.bytes_received += bytes;
  if (to.down) {
    to.now = std::max(to.now, to.down->arrival(entry.closed_at, static_cast<double>(bytes)));
  }
  return heard;
}

void LoopbackHub::forget_old(const Round& newest) {
  for (auto it = rounds_.begin(); it != rounds_.end() && it->first < newest;) {
    const Entry& old = it->second;
    const bool done = old.closed && old.collected >= static_cast<int>(members_.size());
    if (old.waiting > 0 || (!done && rounds_.size() <= kRoundsKept)) break;
    forgotten_ = it->first;
    it = rounds_.erase(it);
  }
}

Traffic LoopbackHub::traffic(int member) const {
  std::lock_guard lock(mutex_);
  return members_[member].traffic;
}

double LoopbackHub::now(int member) const {
  std::lock_guard lock(mutex_);
  return members_[member].now;
}

void LoopbackHub::spend(int member, double seconds) {
  std::lock_guard lock(mutex_);
  members_[member].now += seconds;
}

void LoopbackHub::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

namespace {

class LoopbackExchange final : public Exchange {
 public:
  LoopbackExchange(LoopbackHub& hub, int member) : hub_(hub), member_(member) {}
  int site() const override { return hub_.site_of(member_); }
  int sites() const override { return hub_.sites(); }
  void post(const Round& round, Bytes frame) override {
    hub_.post(member_, round, std::move(frame));
  }
  RoundResult collect(const Round& round) override { return hub_.collect(member_, round); }
  bool missed(const Round& round) const override { return hub_.missed(member_, round); }
  Traffic traffic() const override { return hub_.traffic(member_); }

 private:
  LoopbackHub& hub_;
  int member_;
};

}  // namespace

std::unique_ptr<Exchange> make_loopback_exchange(LoopbackHub& hub, int member) {
  return std::make_unique<LoopbackExchange>(hub, member);
}

}  // namespace thinwire
