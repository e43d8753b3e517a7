// Posts and the closing of rounds. A round is closed once, for all parts and all sites.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "transports/hub_body_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kDurationsKept = 32;
// A site that takes half as long again as the fastest is no laggard: between two rounds of a method
// that speaks rarely lies much work, and differences add up.
constexpr double kPaceShare = 0.5;
constexpr std::uint64_t kLoggedDeadlines = 16;
// Rounds kept for sites on their way in, at most; memory is bounded besides.
constexpr std::uint64_t kPinnedMax = 1 << 14;

// Sums in site order, one addition at a time, then divides: the bits of every other transport. The
// first frame becomes the mean, block by block, so that each frame is read once and nothing is
// allocated.
void take_mean(std::vector<SharedFrame>& frames) {
  constexpr std::size_t kBlock = 4096;
  std::array<float, kBlock> sum, term;
  const std::size_t length = frames.front().bytes.size();
  std::byte* first = frames.front().bytes.edit();
  const auto count = static_cast<float>(frames.size());
  for (std::size_t at = 0; at < length; at += sizeof sum) {
    const std::size_t bytes = std::min(sizeof sum, length - at);
    const std::size_t floats = bytes / sizeof(float);
    std::memcpy(sum.data(), first + at, bytes);
    for (std::size_t frame = 1; frame < frames.size(); ++frame) {
      std::memcpy(term.data(), frames[frame].bytes.data() + at, bytes);
      for (std::size_t i = 0; i < floats; ++i) sum[i] += term[i];
    }
    for (std::size_t i = 0; i < floats; ++i) sum[i] /= count;
    std::memcpy(first + at, sum.data(), bytes);
  }
  frames.resize(1);
  frames.front().site = 0;
}

double median(const std::deque<double>& values) {
  if (values.empty()) return 0.0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::size_t frame_bytes(const std::vector<std::vector<SharedFrame>>& parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) {
    for (const SharedFrame& frame : part) bytes += frame.bytes.size();
  }
  return bytes;
}

// Of one part: the length that most sites sent, the one of the lowest site among equals.
std::size_t common_length(const OpenRound& round, const std::vector<bool>& taking,
                          std::size_t part) {
  std::map<std::size_t, std::size_t> votes;
  std::size_t best = 0, most = 0;
  for (std::size_t site = 0; site < taking.size(); ++site) {
    if (taking[site]) most = std::max(most, ++votes[round.by_site[site].parts[part]->size()]);
  }
  for (std::size_t site = taking.size(); site-- > 0;) {
    if (!taking[site]) continue;
    const std::size_t length = round.by_site[site].parts[part]->size();
    if (votes[length] == most) best = length;
  }
  return best;
}

}  // namespace

bool ClosedRound::includes(std::uint32_t site) const {
  return !std::binary_search(absent.begin(), absent.end(), site);
}

void Core::Body::post(Site& site, Post post) {
  const Key key = key_of(post.slot);
  const std::uint32_t part = post.slot.part;
  if (!acceptable(site, post)) return;
  site.step = std::max(site.step, key.number);
  if (const auto closed = closed_.find(key); closed != closed_.end()) {
    if (!closed->second.includes(site.number))
      refuse("late", "site " + site.name + " posts for round " + std::to_string(key.number) +
                         " after it was closed");
    return send_closed(site, key, part);
  }
  if (key.number < kept_from_) return want(site, post.slot);
  const auto open = open_.find(key);
  if (open != open_.end()) {
    const Posts& posts = open->second.by_site[site.number];
    if (posts.count > 0 && posts.parts[part]) {
      if (*posts.parts[part] != post.frame)
        refuse("repeated", "a second, different frame of site " + site.name + " for round " +
                               std::to_string(key.number));
      return send(site, Taken{slot_of(key, part)});
    }
  }
  if (!room_for(key, post.frame.size())) {
    return refuse("memory", "a frame of " + std::to_string(post.frame.size()) + " bytes of site " +
                                site.name + " for round " + std::to_string(key.number));
  }
  OpenRound& round = open_[key];
  if (round.by_site.empty()) {
    round.by_site.resize(numbered_.size());
    round.first = now_;
    note_pace(key);
  }
  Posts& posts = round.by_site[site.number];
  posts.process = site.process;
  posts.parts.resize(common_->parts);
  posts.parts[part] = std::move(post.frame);
  ++posts.count;
  bytes_open_ += posts.parts[part]->size();
  send(site, Taken{slot_of(key, part)});
  if (held(key)) fetch(key);
}

void Core::Body::note_pace(const Key& key) {
  if (key.phase > 0 || (spoken_of_ && key.number <= *spoken_of_)) return;
  // The last round's own wait is no part of it, or the pace would feed on it.
  if (spoken_of_ && key.number == *spoken_of_ + 1) {
    paces_.push_back(now_ - std::max(spoken_at_, closed_at_));
    if (paces_.size() > kDurationsKept) paces_.pop_front();
  }
  spoken_of_ = key.number;
  spoken_at_ = now_;
}

bool Core::Body::acceptable(const Site& site, const Post& post) {
  const std::string what = "site " + site.name + " posts for round " +
                           std::to_string(post.slot.round.number) + ", part " +
                           std::to_string(post.slot.part);
  if (post.slot.part >= common_->parts) {
    refuse("part", what + "; there are " + std::to_string(common_->parts) + " parts");
    return false;
  }
  const std::uint64_t first = first_open();
  if (post.slot.round.number > first && post.slot.round.number - first > kRoundsAhead) {
    refuse("ahead", what + "; the first open round is " + std::to_string(first));
    return false;
  }
  if (post.slot.kind == Kind::reduce && post.frame.size() % sizeof(float) != 0) {
    refuse("length", what + ", " + std::to_string(post.frame.size()) +
                         " bytes, which are no whole fp32 numbers");
    return false;
  }
  return true;
}

// Rounds ahead of the first open one get half of the memory: they must not starve it.
bool Core::Body::room_for(const Key& key, std::size_t bytes) {
  const std::size_t limit = key.number > first_open() ? options_.bytes_max / 2 : options_.bytes_max;
  const std::size_t used = bytes_open_ + bytes_fetched_;
  if (used > limit || bytes > limit - used) return false;
  while (used + bytes_closed_ + bytes > options_.bytes_max) {
    if (!drop_oldest()) return false;
  }
  return true;
}

void Core::Body::want(Site& site, const Slot& slot) {
  const Key key = key_of(slot);
  if (slot.part >= common_->parts) {
    return refuse("part", "site " + site.name + " asks for part " + std::to_string(slot.part));
  }
  if (closed_.contains(key)) return send_closed(site, key, slot.part);
  // The answer to Missing: it has that round behind it and keeps the result no more.
  if (site.claims.has(key)) return lacks(site, key);
  if (key.number < kept_from_) {
    return take_over(site, "is too far behind: it asks for round " + std::to_string(key.number) +
                               ", the hub can give those from " + std::to_string(kept_from_));
  }
  if (held(key)) fetch(key);
}

void Core::Body::close_ready() {
  for (const Kind kind : {Kind::gather, Kind::reduce}) {
    while (enough()) {
      const auto lowest = std::find_if(open_.begin(), open_.end(),
                                       [&](const auto& entry) { return entry.first.kind == kind; });
      if (lowest == open_.end() || held(lowest->first)) break;
      const bool all = complete(lowest->second);
      if (!all && now_ < deadline(lowest->second)) break;
      close(Key(lowest->first), !all);
    }
  }
}

bool Core::Body::complete(const OpenRound& round) const {
  return std::all_of(sites_.begin(), sites_.end(), [&](const auto& entry) {
    const Site& site = entry.second;
    return !site.awaited || round.by_site[site.number].count == common_->parts;
  });
}

// How long a round may take from its first post.
double Core::Body::allowance() const {
  if (durations_.empty()) return options_.round_deadline_s;
  const double patient = std::max(
      {options_.shortest_s, options_.patience * median(durations_), kPaceShare * median(paces_)});
  return std::min(patient, options_.round_deadline_s);
}

// A site takes part with all its parts or with none.
std::vector<bool> Core::Body::take_part(const Key& key, OpenRound& round) {
  std::vector<bool> taking(numbered_.size());
  for (std::size_t site = 0; site < taking.size(); ++site) {
    taking[site] = numbered_[site] && round.by_site[site].count == common_->parts;
  }
  if (key.kind == Kind::gather) return taking;
  for (std::uint32_t part = 0; part < common_->parts; ++part) {
    const std::size_t length = common_length(round, taking, part);
    for (std::size_t site = 0; site < taking.size(); ++site) {
      if (!taking[site] || round.by_site[site].parts[part]->size() == length) continue;
      taking[site] = false;
      refuse("length", "site " + numbered_[site]->name + " posts " +
                           std::to_string(round.by_site[site].parts[part]->size()) +
                           " bytes for round " + std::to_string(key.number) + ", the others post " +
                           std::to_string(length));
    }
  }
  return taking;
}

void Core::Body::close(const Key& key, bool by_deadline) {
  OpenRound round = std::move(open_.extract(key).mapped());
  release(round);
  closed_at_ = now_;
  const std::vector<bool> taking = take_part(key, round);
  ClosedRound closed;
  closed.epoch = epoch_;
  closed.parts.resize(common_->parts);
  std::string without;
  for (std::uint32_t number = 0; number < taking.size(); ++number) {
    closed.processes.push_back(round.by_site[number].process);
    for (std::uint32_t part = 0; taking[number] && part < common_->parts; ++part) {
      closed.parts[part].push_back(
          {static_cast<int>(number), std::move(*round.by_site[number].parts[part])});
    }
    if (taking[number]) continue;
    closed.absent.push_back(number);
    if (numbered_[number]) ++numbered_[number]->left_out;
    without += " " + (numbered_[number] ? numbered_[number]->name : std::to_string(number));
  }
  if (key.kind == Kind::reduce && closed.absent.size() < taking.size()) {
    for (auto& frames : closed.parts) take_mean(frames);
  }
  ++rounds_closed_;
  if (by_deadline) {
    ++closed_by_deadline_;
    if (closed_by_deadline_ <= kLoggedDeadlines || std::has_single_bit(closed_by_deadline_))
      log("round " + std::to_string(key.number) + " closed at its deadline without site" + without);
  } else {
    durations_.push_back(now_ - round.first);
    if (durations_.size() > kDurationsKept) durations_.pop_front();
  }
  keep(key, std::move(closed));
}

void Core::Body::keep(const Key& key, ClosedRound round) {
  round.bytes = frame_bytes(round.parts);
  std::uint64_t hash = 0;
  for (const auto& frames : round.parts) hash = fold_result(hash, frames, round.absent);
  history_.erase(key);  // whoever had another result has left before it was fetched
  learn(key, hash);
  bytes_closed_ += round.bytes;
  closed_[key] = std::move(round);
  head_ = std::max(head_, key.number + 1);
  for (auto& [name, site] : sites_) {
    for (std::uint32_t part = 0; part < common_->parts; ++part) {
      if (!site.active || site.takeover || site.claims.has(key)) continue;
      // One that is far behind asks for what it can use.
      if (site.awaited || key.number < site.step + kRoundsAhead) send_closed(site, key, part);
    }
  }
  drop_old();
}

// The site's own frame is left out: it has it.
void Core::Body::send_closed(Site& to, const Key& key, std::uint32_t part) {
  const ClosedRound& round = closed_.at(key);
  const bool included = round.includes(to.number) && to.number < round.processes.size() &&
                        round.processes[to.number] == to.process;
  Closed closed{slot_of(key, part, round.epoch), included, {}, round.absent};
  for (const SharedFrame& frame : round.parts[part]) {
    const bool known =
        included && key.kind == Kind::gather && frame.site == static_cast<int>(to.number);
    if (!known) closed.frames.push_back(frame);
  }
  send(to, std::move(closed));
}

bool Core::Body::drop_oldest() {
  if (closed_.empty()) return false;
  const std::uint64_t number = closed_.begin()->first.number;
  if (number >= first_open()) return false;
  while (!closed_.empty() && closed_.begin()->first.number == number) {
    bytes_closed_ -= closed_.begin()->second.bytes;
    closed_.erase(closed_.begin());
  }
  kept_from_ = std::max(kept_from_, number + 1);
  return true;
}

void Core::Body::drop_old() {
  const std::uint64_t first = first_open();
  const std::uint64_t old = first > options_.rounds_kept ? first - options_.rounds_kept : 0;
  const std::uint64_t oldest = first > kPinnedMax ? first - kPinnedMax : 0;
  const std::uint64_t from = std::min(old, std::max(oldest, needed_from()));
  kept_from_ = std::max(kept_from_, from);
  while (!closed_.empty() && closed_.begin()->first.number < kept_from_ && drop_oldest()) {
  }
  while (bytes_open_ + bytes_fetched_ + bytes_closed_ > options_.bytes_max && drop_oldest()) {
  }
}

void Core::Body::release(const OpenRound& round) {
  for (const Posts& posts : round.by_site) {
    for (const auto& frame : posts.parts) bytes_open_ -= frame ? frame->size() : 0;
  }
}

}  // namespace thinwire::hub
