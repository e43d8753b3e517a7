// The hub's side of SiteRounds: what it says of rounds, and what must be said to it.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq_rounds_internal.h"

namespace thinwire::hub {
namespace {

// The hub takes no round further than this ahead of the first open one; and a site keeps no result
// that it did not ask for further than this ahead of its ranks.
constexpr std::uint64_t kAhead = 16;

// Why these frames cannot be the result of a round for that site, or an empty text.
// A frame under the site's own number may be of a process that was here before.
std::string judge(const Closed& closed, std::uint32_t site, bool has_own) {
  const std::string round = "the hub's result of round " + std::to_string(closed.slot.round.number);
  if (closed.included && !has_own) return round + " counts a frame that this site never posted";
  if (closed.slot.kind == Kind::reduce) {
    return closed.frames.size() <= 1 ? "" : round + " holds several means";
  }
  int last = -1;
  for (const SharedFrame& frame : closed.frames) {
    if (frame.site <= last || (closed.included && frame.site == static_cast<int>(site))) {
      return round + " holds a frame of site " + std::to_string(frame.site) + " out of place";
    }
    last = frame.site;
  }
  return "";
}

}  // namespace

void SiteRounds::welcome(std::uint32_t site, std::uint64_t next_round, bool other_hub) {
  site_ = site;
  for (Course& course : courses_) {
    course.open = other_hub ? next_round : std::max(course.open, next_round);
  }
  for (auto& [key, entry] : rounds_) {
    // An earlier hub was lost while it gave out this result: this one may decide otherwise.
    if (other_hub && entry.closed > 0 && entry.closed < options_.parts) reopen(key, entry);
    for (Part& part : entry.parts) {
      part.taken = false;
      part.said_at = part.asked_at = kNever;
    }
  }
}

void SiteRounds::restart(std::uint32_t site, std::uint64_t first, std::uint64_t next_round) {
  site_ = site;
  rounds_.clear();
  courses_ = {};
  for (Course& course : courses_) course.open = next_round;
  first_ = first;
}

void SiteRounds::heard_open(std::uint64_t next_round) {
  for (Course& course : courses_) course.open = std::max(course.open, next_round);
}

std::uint64_t SiteRounds::open() const {
  return std::max(course(Kind::gather).open, course(Kind::reduce).open);
}

void SiteRounds::reopen(const Key& key, Entry& entry) {
  Slot slot{{0, key.number, key.phase}, key.kind, 0};
  for (; slot.part < options_.parts; ++slot.part) {
    Part& part = entry.parts[slot.part];
    if (!part.closed) continue;
    if (part.own && !part.included) --traffic_of(slot).refused;
    for (const SharedFrame& frame : part.frames) entry.bytes -= frame.bytes.size();
    part.frames.clear();
    part.absent.clear();
    part.closed = part.included = false;
  }
  entry.closed = 0;
}

std::uint64_t SiteRounds::next_round() const {
  std::optional<std::uint64_t> first;
  for (Kind kind : {Kind::gather, Kind::reduce}) {
    if (!course(kind).begun) continue;
    // A later phase of the round that the ranks are in may still come.
    const std::uint64_t of_kind = std::min(first_lacking(kind), course(kind).highest);
    first = std::min(first.value_or(of_kind), of_kind);
  }
  return first.value_or(first_.value_or(0));
}

std::uint64_t SiteRounds::step() const {
  return std::max(course(Kind::gather).highest, course(Kind::reduce).highest);
}

std::vector<Slot> SiteRounds::ahead() const {
  std::vector<Slot> slots;
  const std::uint64_t first = next_round();
  for (const auto& [key, entry] : rounds_) {
    if (key.number < first || entry.closed != options_.parts) continue;
    slots.push_back({{0, key.number, key.phase}, key.kind, 0});
  }
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    return std::tie(a.round, a.kind) < std::tie(b.round, b.kind);
  });
  return slots;
}

std::vector<RoundHash> SiteRounds::recent() const {
  std::vector<RoundHash> hashes;
  for (const auto& [key, entry] : rounds_) {
    if (entry.closed != options_.parts) continue;
    std::uint64_t hash = 0;
    for (const Part& part : entry.parts) {
      hash = fold_result(hash, all_frames(part, key.kind), part.absent);
    }
    hashes.push_back({{{0, key.number, key.phase}, key.kind, 0}, hash});
  }
  std::sort(hashes.begin(), hashes.end(), [](const RoundHash& a, const RoundHash& b) {
    return std::tie(a.slot.round, a.slot.kind) < std::tie(b.slot.round, b.slot.kind);
  });
  if (hashes.size() > kRecentMax) hashes.erase(hashes.begin(), hashes.end() - kRecentMax);
  return hashes;
}

void SiteRounds::taken(const Slot& slot) {
  const auto it = rounds_.find(key(slot));
  if (it == rounds_.end() || slot.part >= options_.parts) return;
  it->second.parts[slot.part].taken = true;
}

std::string SiteRounds::close(Closed closed, std::size_t bytes) {
  const Slot& slot = closed.slot;
  if (slot.part >= options_.parts) return "the hub sends results of ranks that this site lacks";
  traffic_of(slot).bytes_received += bytes;
  Course& course = this->course(slot.kind);
  // Rounds close in order.
  if (slot.round.phase == 0) course.open = std::max(course.open, slot.round.number + 1);
  const std::uint64_t position = course.position();
  const bool of_use = slot.round.number >= position && slot.round.number < position + kAhead;
  if (!find(slot) && !of_use) return "";
  Entry& entry = this->entry(slot);
  Part& part = entry.parts[slot.part];
  if (part.closed) return "";
  if (const std::string why = judge(closed, site_, part.own.has_value()); !why.empty()) return why;
  // A frame under this site's number: its own, or of a process that was here before.
  const auto mine =
      std::find_if(closed.frames.begin(), closed.frames.end(), [&](const SharedFrame& frame) {
        return slot.kind == Kind::gather && frame.site == static_cast<int>(site_);
      });
  if (mine != closed.frames.end() && part.own && mine->bytes == *part.own) {
    closed.included = true;
    closed.frames.erase(mine);
  }
  for (const SharedFrame& frame : closed.frames) entry.bytes += frame.bytes.size();
  if (part.own && !closed.included) ++traffic_of(slot).refused;
  part.frames = std::move(closed.frames);
  part.absent = std::move(closed.absent);
  part.included = closed.included;
  part.closed = true;
  ++entry.closed;
  return "";
}

std::optional<Bundle> SiteRounds::bundle(const Slot& slot) const {
  if (slot.part >= options_.parts || !ready(slot)) return std::nullopt;
  const Part& part = find(slot)->parts[slot.part];
  return Bundle{slot, all_frames(part, slot.kind), part.absent};
}

std::optional<Encoded> SiteRounds::next(double now) {
  for (Kind kind : {Kind::gather, Kind::reduce}) {
    const Key first{kind, course(kind).position(), 0};
    const std::uint64_t end = first_lacking(kind) + kAhead;
    for (auto it = rounds_.lower_bound(first); it != rounds_.end(); ++it) {
      if (it->first.kind != kind || it->first.number >= end) break;
      if (it->second.closed == options_.parts) continue;
      if (auto bytes = next_of(it->first, it->second, now)) return bytes;
    }
  }
  return std::nullopt;
}

void SiteRounds::said(double now) {
  if (!last_post_) return;
  if (const auto it = rounds_.find(key(*last_post_)); it != rounds_.end())
    it->second.parts[last_post_->part].said_at = now;
  last_post_.reset();
}

std::optional<Encoded> SiteRounds::next_of(const Key& key, Entry& entry, double now) {
  Slot slot{{0, key.number, key.phase}, key.kind, 0};
  for (; slot.part < options_.parts; ++slot.part) {
    Part& part = entry.parts[slot.part];
    if (part.closed) continue;
    if (part.own && !part.taken) {
      if (now - part.said_at < options_.again_s) continue;
      part.said_at = now;
      last_post_ = slot;
      Encoded post = encode_shared(Post{slot, *part.own});
      traffic_of(slot).bytes_sent += post.size();
      return post;
    }
    const double quiet_from = std::max({part.said_at, part.asked_at, heard_piece_at_});
    if (!part.awaited || now - quiet_from < options_.again_s) continue;
    part.asked_at = now;
    return encode(Want{slot});
  }
  return std::nullopt;
}

}  // namespace thinwire::hub
