#include <algorithm>
#include <string>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq_rounds_internal.h"

namespace thinwire::hub {
namespace {

// Posts that may wait for their rounds to be closed; a method has at most 9 in flight.
constexpr std::uint64_t kOpenMax = 64;
// Closed rounds asked for at once by a site that is behind.
constexpr std::uint64_t kAskedAhead = 8;

}  // namespace

std::uint64_t SiteRounds::Course::position() const {
  return at.empty() ? 0 : *std::min_element(at.begin(), at.end());
}

SiteRounds::Course& SiteRounds::begin(const Slot& slot) {
  TW_CHECK(slot.part < options_.parts);
  Course& course = this->course(slot.kind);
  const std::uint64_t first = std::min(slot.round.number, first_.value_or(slot.round.number));
  if (!course.begun) course.at.assign(options_.parts, first);
  course.begun = true;
  course.highest = std::max(course.highest, slot.round.number);
  return course;
}

SiteRounds::Entry& SiteRounds::entry(const Slot& slot) {
  Entry& entry = rounds_[key(slot)];
  if (entry.parts.empty()) entry.parts.resize(options_.parts);
  return entry;
}

const SiteRounds::Entry* SiteRounds::find(const Slot& slot) const {
  const auto it = rounds_.find(key(slot));
  return it == rounds_.end() ? nullptr : &it->second;
}

Traffic& SiteRounds::traffic_of(const Slot& slot) {
  return traffic_[static_cast<std::size_t>(slot.kind) * options_.parts + slot.part];
}

Traffic SiteRounds::traffic(Kind kind, std::uint32_t part) const {
  return traffic_[static_cast<std::size_t>(kind) * options_.parts + part];
}

void SiteRounds::post(const Slot& slot, SharedBytes frame) {
  const Course& course = begin(slot);
  const std::uint64_t position = course.at[slot.part];
  if (slot.round.number >= position + kOpenMax) {
    throw Error("round " + std::to_string(slot.round.number) + " is posted before round " +
                std::to_string(position) + " is collected; collect them first");
  }
  if (too_old(slot) || missed(slot)) {
    ++traffic_of(slot).refused;
    return;
  }
  Entry& entry = this->entry(slot);
  Part& part = entry.parts[slot.part];
  if (part.own || part.closed) {
    ++traffic_of(slot).refused;
    return;
  }
  entry.bytes += frame.size();
  part.own = std::move(frame);
}

// A site that is behind asks for several rounds at once, so that catching up takes no round trip
// for each of them.
void SiteRounds::wait_for(const Slot& slot) {
  const Course& course = begin(slot);
  entry(slot).parts[slot.part].awaited = true;
  if (slot.round.phase != 0 || slot.round.number >= course.open) return;
  const std::uint64_t end = std::min(course.open, slot.round.number + kAskedAhead);
  for (Slot one = slot; one.round.number < end; ++one.round.number) {
    for (Part& part : entry(one).parts) part.awaited = true;
  }
}

// A result is given out when all parts have theirs: were the hub lost in between, no rank would
// have gone on from a round that another rank's new hub decides anew.
bool SiteRounds::ready(const Slot& slot) const {
  const Entry* entry = find(slot);
  return entry && entry->closed == options_.parts;
}

bool SiteRounds::too_old(const Slot& slot) const {
  return course(slot.kind).begun && slot.round.number < course(slot.kind).position() && !find(slot);
}

bool SiteRounds::missed(const Slot& slot) const {
  const Entry* entry = find(slot);
  if (entry && entry->parts[slot.part].closed) return !entry->parts[slot.part].included;
  if (entry && entry->parts[slot.part].own) return false;
  // Of the last round that is known to be closed a later phase may still be open.
  return slot.round.number + (slot.round.phase == 0 ? 0 : 1) < course(slot.kind).open;
}

std::vector<SharedFrame> SiteRounds::all_frames(const Part& part, Kind kind) const {
  std::vector<SharedFrame> frames = part.frames;
  if (!part.included || kind == Kind::reduce) return frames;
  const int site = static_cast<int>(site_);
  const auto at = std::find_if(frames.begin(), frames.end(),
                               [&](const SharedFrame& frame) { return frame.site > site; });
  frames.insert(at, {site, *part.own});
  return frames;
}

SharedResult SiteRounds::collect(const Slot& slot) {
  TW_CHECK(ready(slot));
  Entry& entry = this->entry(slot);
  Part& part = entry.parts[slot.part];
  SharedResult result;
  result.frames = all_frames(part, slot.kind);
  result.absent.assign(part.absent.begin(), part.absent.end());
  if (!part.collected) {
    part.collected = true;
    ++entry.collected;
    if (part.own && (!part.included || slot.kind == Kind::reduce)) {
      entry.bytes -= part.own->size();
      part.own = SharedBytes{};
    }
  }
  // Later phases go without delay: rounds before theirs may still be in flight.
  std::uint64_t& at = course(slot.kind).at[slot.part];
  if (slot.round.phase == 0) at = std::max(at, slot.round.number);
  forget_old(slot.kind);
  return result;
}

std::vector<Bundle> SiteRounds::results(std::uint32_t part, std::uint64_t from) const {
  std::vector<Bundle> all;
  for (const auto& [key, entry] : rounds_) {
    if (key.number < from || entry.closed != options_.parts) continue;
    const Part& one = entry.parts[part];
    all.push_back(
        {{{0, key.number, key.phase}, key.kind, part}, all_frames(one, key.kind), one.absent});
  }
  return all;
}

void SiteRounds::restore(Bundle bundle) {
  Entry& entry = this->entry(bundle.slot);
  Part& part = entry.parts[bundle.slot.part];
  if (part.closed) return;
  for (const SharedFrame& frame : bundle.frames) entry.bytes += frame.bytes.size();
  part.frames = std::move(bundle.frames);
  part.absent = std::move(bundle.absent);
  part.closed = true;
  ++entry.closed;
}

void SiteRounds::forget_halves() {
  std::erase_if(rounds_, [&](const auto& one) { return one.second.closed < options_.parts; });
}

// The newest rounds are kept, within the bounds; those that some rank has still to collect always.
void SiteRounds::forget_old(Kind kind) {
  const auto begin = rounds_.lower_bound(Key{kind, 0, 0});
  std::size_t rounds = 0;
  std::size_t bytes = 0;
  const std::uint64_t position = course(kind).position();
  for (auto it = begin; it != rounds_.end() && it->first.kind == kind; ++it) {
    if (it->first.number >= position) break;
    ++rounds;
    bytes += it->second.bytes;
  }
  for (auto it = begin; rounds > 1; --rounds) {
    if (rounds <= options_.rounds_kept && bytes <= options_.bytes_kept) break;
    bytes -= it->second.bytes;
    it = rounds_.erase(it);
  }
}

std::uint64_t SiteRounds::first_lacking(Kind kind) const {
  Slot slot{{0, course(kind).position(), 0}, kind, 0};
  while (ready(slot)) ++slot.round.number;
  return slot.round.number;
}

}  // namespace thinwire::hub
