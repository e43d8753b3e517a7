#include <algorithm>
#include <utility>

#include "thinwire/error.h"
#include "transports/loopback_hub_internal.h"

namespace thinwire {
namespace {

// Rounds kept for sites that collect late; far more than the longest delay.
constexpr std::size_t kRoundsKept = 64;

}  // namespace

LoopbackHub::LoopbackHub(const LoopbackOptions& options)
    : options_(options), sites_(options.sites) {
  if (!options_.link) return;
  for (int site = 0; site < options_.sites; ++site) {
    const std::uint64_t seed = options_.seed + 2 * static_cast<std::uint64_t>(site);
    sites_[site].up.emplace(*options_.link, seed);
    sites_[site].down.emplace(*options_.link, seed + 1);
  }
}

LoopbackHub::Entry& LoopbackHub::entry(const Round& round) {
  Entry& entry = rounds_[round];
  if (entry.frames.empty()) {
    entry.frames.resize(options_.sites);
    entry.arrivals.resize(options_.sites, 0.0);
  }
  return entry;
}

void LoopbackHub::post(int site, const Round& round, Bytes frame) {
  std::lock_guard lock(mutex_);
  Site& from = sites_[site];
  from.traffic.bytes_sent += frame.size();
  const bool gone = forgotten_ && round <= *forgotten_;
  if (gone || entry(round).closed || entry(round).frames[site]) {
    ++from.traffic.refused;
    return;
  }
  Entry& to = entry(round);
  to.arrivals[site] =
      from.up ? from.up->arrival(from.now, static_cast<double>(frame.size())) : from.now;
  to.frames[site] = std::move(frame);
  if (++to.posted == options_.sites) close(to);
}

// One set of contributors for everybody: those that arrived within the deadline of the first.
void LoopbackHub::close(Entry& entry) {
  double first = std::numeric_limits<double>::infinity();
  for (int site = 0; site < options_.sites; ++site) {
    if (entry.frames[site]) first = std::min(first, entry.arrivals[site]);
  }
  const double last = first + options_.round_deadline_s;
  for (int site = 0; site < options_.sites; ++site) {
    if (!entry.frames[site]) {
      if (options_.round_deadline_s < std::numeric_limits<double>::infinity()) {
        entry.closed_at = std::max(entry.closed_at, last);
      }
    } else if (entry.arrivals[site] > last) {
      entry.closed_at = std::max(entry.closed_at, last);
      entry.frames[site].reset();
      ++sites_[site].traffic.refused;
    } else {
      entry.closed_at = std::max(entry.closed_at, entry.arrivals[site]);
    }
  }
  entry.closed = true;
  changed_.notify_all();
}

RoundResult LoopbackHub::collect(int site, const Round& round) {
  std::unique_lock lock(mutex_);
  if (forgotten_ && round <= *forgotten_) {
    throw Error("site " + std::to_string(site) + " asks for round " + std::to_string(round.number) +
                ", which is no longer kept; it is too far behind");
  }
  Entry& wanted = entry(round);
  ++wanted.waiting;
  if (!changed_.wait_for(lock, options_.deadline,
                         [&] { return wanted.closed || !failure_.empty(); })) {
    close(wanted);
  }
  --wanted.waiting;
  if (!wanted.closed) throw Error(failure_);
  RoundResult heard = result(site, wanted);
  ++wanted.collected;
  forget_old(round);
  return heard;
}

RoundResult LoopbackHub::result(int site, const Entry& entry) {
  RoundResult heard;
  double bytes = 0.0;
  for (int from = 0; from < options_.sites; ++from) {
    if (!entry.frames[from]) {
      heard.absent.push_back(from);
      continue;
    }
    heard.frames.push_back({from, *entry.frames[from]});
    if (from != site) bytes += static_cast<double>(entry.frames[from]->size());
  }
  Site& to = sites_[site];
  to.traffic.bytes_received += static_cast<std::uint64_t>(bytes);
  if (to.down) to.now = std::max(to.now, to.down->arrival(entry.closed_at, bytes));
  return heard;
}

void LoopbackHub::forget_old(const Round& newest) {
  for (auto it = rounds_.begin(); it != rounds_.end() && it->first < newest;) {
    const Entry& old = it->second;
    const bool done = old.closed && old.collected >= options_.sites;
    if (old.waiting > 0 || (!done && rounds_.size() <= kRoundsKept)) break;
    forgotten_ = it->first;
    it = rounds_.erase(it);
  }
}

Traffic LoopbackHub::traffic(int site) const {
  std::lock_guard lock(mutex_);
  return sites_[site].traffic;
}

double LoopbackHub::now(int site) const {
  std::lock_guard lock(mutex_);
  return sites_[site].now;
}

void LoopbackHub::spend(int site, double seconds) {
  std::lock_guard lock(mutex_);
  sites_[site].now += seconds;
}

void LoopbackHub::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

namespace {

class LoopbackExchange final : public Exchange {
 public:
  LoopbackExchange(LoopbackHub& hub, int site) : hub_(hub), site_(site) {}
  int site() const override { return site_; }
  int sites() const override { return hub_.sites(); }
  void post(const Round& round, Bytes frame) override { hub_.post(site_, round, std::move(frame)); }
  RoundResult collect(const Round& round) override { return hub_.collect(site_, round); }
  Traffic traffic() const override { return hub_.traffic(site_); }

 private:
  LoopbackHub& hub_;
  int site_;
};

}  // namespace

std::unique_ptr<Exchange> make_loopback_exchange(LoopbackHub& hub, int site) {
  return std::make_unique<LoopbackExchange>(hub, site);
}

}  // namespace thinwire
