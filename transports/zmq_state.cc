#include <algorithm>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "transports/zmq_state_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kCopiesMax = 2;
constexpr std::size_t kFetchesMax = 1024;  // that wait for a copy or for their turn
constexpr double kCopyKept = 6.0;          // peer timeouts after it was last asked for
constexpr double kWindowMin = 2.0;
constexpr double kWindowMax = 256.0;
constexpr double kJitterS = 0.02;
constexpr double kAgainS = 1.0;

std::uint64_t begin_of(std::uint64_t chunk) { return chunk * kChunkBytes; }

}  // namespace

SiteState::SiteState(std::uint32_t parts, double peer_timeout_s)
    : parts_(parts), peer_timeout_s_(peer_timeout_s), at_(parts) {}

void SiteState::at_step(std::uint32_t part, std::uint64_t step) {
  at_[part] = step;
  // A copy that this rank has passed by will never be whole.
  for (auto it = copies_.begin(); it != copies_.end() && it->first < step;) {
    const auto next = std::next(it);
    if (!it->second.parts[part]) drop(it->first);
    it = next;
  }
}

bool SiteState::wanted(std::uint32_t part) const {
  if (!at_[part]) return false;
  const auto copy = copies_.find(*at_[part]);
  return copy != copies_.end() && !copy->second.parts[part];
}

void SiteState::give(std::uint32_t part, Bytes state, std::uint64_t hash) {
  if (!wanted(part)) return;
  Copy& copy = copies_.at(*at_[part]);
  copy.parts[part] = std::move(state);
  copy.hashes[part] = hash;
  ++copy.given;
}

std::uint64_t SiteState::position() const {
  std::uint64_t least = kNoStep;
  for (const auto& at : at_) least = std::min(least, at.value_or(0));
  return least == kNoStep ? 0 : least;
}

void SiteState::snapshot(std::uint64_t step) {
  if (copies_.contains(step)) return;
  const bool passed =
      std::any_of(at_.begin(), at_.end(), [&](const auto& at) { return at > step; });
  if (passed || taking_) {
    refuse(step);
    return;
  }
  if (copies_.size() == kCopiesMax) drop(copies_.begin()->first);
  Copy& copy = copies_[step];
  copy.parts.resize(parts_);
  copy.hashes.resize(parts_);
}

void SiteState::drop(std::uint64_t step) {
  copies_.erase(step);
  std::erase_if(fetches_, [&](const Fetch& fetch) { return fetch.step == step; });
  refuse(step);
}

void SiteState::refuse(std::uint64_t step) {
  if (std::ranges::count(refusals_, step) == 0 && refusals_.size() < kFetchesMax)
    refusals_.push_back(step);
}

void SiteState::fetch(const Fetch& fetch) {
  if (fetch.part >= parts_) return;
  if (!copies_.contains(fetch.step)) {
    refuse(fetch.step);
    return;
  }
  const bool known = std::any_of(fetches_.begin(), fetches_.end(), [&](const Fetch& one) {
    return one.step == fetch.step && one.part == fetch.part && one.chunk == fetch.chunk &&
           one.site == fetch.site;
  });
  if (!known && fetches_.size() < kFetchesMax) fetches_.push_back(fetch);
}

std::optional<Message> SiteState::next(double now) {
  if (!refusals_.empty()) {
    const std::uint64_t step = refusals_.front();
    std::erase(refusals_, step);
    return NoState{step};
  }
  if (auto chunk = next_chunk(now)) return chunk;
  return next_request(now);
}

std::optional<Message> SiteState::next_chunk(double now) {
  for (auto it = copies_.begin(); it != copies_.end();) {
    Copy& copy = it->second;
    const auto next = std::next(it);
    const bool awaited = std::any_of(fetches_.begin(), fetches_.end(),
                                     [&](const Fetch& fetch) { return fetch.step == it->first; });
    if (copy.used_at == 0.0 || awaited) copy.used_at = now;
    if (now - copy.used_at > kCopyKept * peer_timeout_s_) drop(it->first);
    it = next;
  }
  for (auto it = fetches_.begin(); it != fetches_.end(); ++it) {
    Copy& copy = copies_.at(it->step);
    if (copy.given != parts_) continue;  // a part alone is of no use: it might never be whole
    const Fetch fetch = *it;
    fetches_.erase(it);
    copy.used_at = now;
    const Bytes& state = *copy.parts[fetch.part];
    if (fetch.chunk >= chunks_of(state.size())) return next_chunk(now);
    const auto begin = state.begin() + static_cast<std::ptrdiff_t>(begin_of(fetch.chunk));
    const auto length = std::min<std::ptrdiff_t>(kChunkBytes, state.end() - begin);
    Chunk chunk{.step = fetch.step,
                .part = fetch.part,
                .chunk = fetch.chunk,
                .site = fetch.site,
                .state_bytes = state.size(),
                .state_hash = copy.hashes[fetch.part],
                .hash = 0,
                .bytes = Bytes(begin, begin + length)};
    chunk.hash = hash64(ByteView(chunk.bytes));
    return chunk;
  }
  return std::nullopt;
}

void SiteState::take_over(std::uint64_t step, double now) {
  progress_at_ = now;
  if (taking() == step) {  // what was asked for may be lost
    for (TakingPart& part : taking_->parts) part.asked.clear();
    under_way_ = 0;
    return;
  }
  for (const auto& [of, copy] : copies_) refuse(of);
  copies_.clear();
  fetches_.clear();
  taking_.emplace();
  taking_->step = step;
  taking_->parts.resize(parts_);
  window_ = kWindowMin;
  under_way_ = 0;
  fastest_s_ = 0.0;
}

std::optional<Message> SiteState::next_request(double now) {
  if (!taking_) return std::nullopt;
  for (std::uint32_t i = 0; i < parts_; ++i) {
    TakingPart& part = taking_->parts[i];
    if (part.whole()) continue;
    if (const auto chunk = due(part, now)) return Fetch{taking_->step, i, *chunk};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SiteState::due(TakingPart& part, double now) {
  const double again =
      std::clamp(8.0 * fastest_s_, kAgainS, std::max(kAgainS, peer_timeout_s_ / 2));
  for (auto& [chunk, asked] : part.asked) {
    if (now - asked.at < again) continue;
    asked.at = now;
    if (part.known) window_ = std::max(kWindowMin, window_ / 2);
    return chunk;
  }
  const std::uint64_t end = part.known ? chunks_of(part.bytes) : 1;
  std::uint64_t chunk = part.begin.size() / kChunkBytes;
  while (chunk < end && (part.asked.contains(chunk) || part.later.contains(chunk))) ++chunk;
  if (chunk >= end || static_cast<double>(under_way_) >= window_) return std::nullopt;
  part.asked[chunk].at = now;
  ++under_way_;
  return chunk;
}

void SiteState::chunk(Chunk chunk, double now) {
  if (chunk.step != taking() || chunk.part >= parts_) return;
  TakingPart& part = taking_->parts[chunk.part];
  if (hash64(ByteView(chunk.bytes)) != chunk.hash) return;
  if (!part.asked.contains(chunk.chunk)) return;
  // Another donor whose state differs: the other one will be asked again, while it is there.
  if (part.known && (part.bytes != chunk.state_bytes || part.hash != chunk.state_hash)) {
    if (now - part.at <= peer_timeout_s_) return;
    begin_anew(part);
    part.asked[chunk.chunk].at = now;
    ++under_way_;
  }
  const auto asked = part.asked.find(chunk.chunk);
  if (part.known) adapt(now - asked->second.at);
  part.asked.erase(asked);
  under_way_ -= std::min<std::size_t>(under_way_, 1);
  part.known = true;
  part.at = now;
  part.bytes = chunk.state_bytes;
  part.hash = chunk.state_hash;
  bytes_received_ += chunk.bytes.size();
  progress_at_ = now;
  part.later.emplace(chunk.chunk, std::move(chunk.bytes));
  for (auto next = part.later.begin();
       next != part.later.end() && begin_of(next->first) == part.begin.size();
       next = part.later.erase(next)) {
    part.begin.insert(part.begin.end(), next->second.begin(), next->second.end());
    if (next->second.size() < kChunkBytes) {
      part.later.clear();
      break;
    }
  }
  if (!part.whole() || hash64(ByteView(part.begin)) == part.hash) return;
  begin_anew(part);
}

void SiteState::begin_anew(TakingPart& part) {
  under_way_ -= std::min(under_way_, part.asked.size());
  part = {};
}

// Queues in the way show as answers that take longer than the fastest.
void SiteState::adapt(double took) {
  fastest_s_ = fastest_s_ == 0.0 ? took : std::min(fastest_s_, took);
  if (took <= 2.0 * fastest_s_ + kJitterS) {
    window_ = std::min(kWindowMax, window_ + 1.0 / 4.0 + 1.0 / window_);
  } else {
    window_ = std::max(kWindowMin, window_ * 0.9);
  }
}

bool SiteState::complete() const {
  return taking_ && std::all_of(taking_->parts.begin(), taking_->parts.end(),
                                [](const TakingPart& part) { return part.whole(); });
}

double SiteState::progress() const {
  if (!taking_) return 0.0;
  double here = 0.0;
  for (const TakingPart& part : taking_->parts) {
    if (part.whole()) {
      here += 1.0;
    } else if (part.known) {
      here += static_cast<double>(part.begin.size()) / static_cast<double>(part.bytes);
    }
  }
  return here / parts_;
}

std::vector<Bytes> SiteState::take() {
  TW_CHECK(complete());
  std::vector<Bytes> parts;
  for (TakingPart& part : taking_->parts) parts.push_back(std::move(part.begin));
  taking_.reset();
  return parts;
}

}  // namespace thinwire::hub
