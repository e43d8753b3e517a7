#include "thinwire/sync.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "src/core/update_form.h"
#include "thinwire/error.h"

namespace thinwire {

Heard Sync::listen(const Step& step, std::uint64_t state_hash) {
  return exchange(step, 0, state_hash, {});
}

namespace {

constexpr std::uint64_t kNoStateHash = 0;

using Replicas = std::vector<std::pair<int, std::uint64_t>>;  // site, hash

// Who differs is a matter of the frames alone where most agree, so that all sites say the same.
void compare(const Replicas& replicas, std::uint64_t mine, Heard& heard) {
  const auto votes = [&](std::uint64_t hash) {
    return std::ranges::count_if(replicas, [&](const auto& one) { return one.second == hash; });
  };
  std::uint64_t right = mine;
  for (const auto& [site, hash] : replicas) {
    if (2 * votes(hash) <= std::ssize(replicas)) continue;
    right = hash;
    heard.of_most = site;
    break;
  }
  if (right == kNoStateHash) return;
  for (const auto& [site, hash] : replicas) {
    if (hash != right) heard.diverged.push_back(site);
  }
}

// A mean carries hashes too: each site has places of its own, for a 1 that tells how many the mean
// is over, and for its hash in 16-bit numbers. n times a mean of one of them and zeros rounds to
// it.
constexpr std::size_t kPlaces = 5;

void push_replica(std::vector<float>& values, std::uint64_t hash, int site, int sites) {
  const std::size_t begin = values.size() + kPlaces * static_cast<std::size_t>(site);
  values.resize(values.size() + kPlaces * static_cast<std::size_t>(sites), 0.0f);
  values[begin] = 1.0f;
  for (int i = 0; i < 4; ++i) values[begin + 1 + i] = static_cast<float>(hash >> (16 * i) & 0xffff);
}

Replicas replicas_in(ConstFloats places) {
  Replicas replicas;
  for (std::size_t site = 0; site * kPlaces < places.size(); ++site) {
    const ConstFloats of_site = places.subspan(site * kPlaces, kPlaces);
    if (!(of_site[0] > 0.0f && of_site[0] <= 1.0f)) continue;
    const float members = std::nearbyint(1.0f / of_site[0]);
    std::uint64_t hash = 0;
    for (int i = 0; i < 4; ++i) {
      const float quarter = std::nearbyint(of_site[1 + i] * members);
      hash |= static_cast<std::uint64_t>(std::clamp(quarter, 0.0f, 65535.0f)) << (16 * i);
    }
    if (hash != kNoStateHash) replicas.emplace_back(static_cast<int>(site), hash);
  }
  return replicas;
}

struct Judged {
  std::uint64_t state_hash;
  Update update;
};

// What a frame says, or why it may not be used; the verdict depends on its bytes alone, so that
// every site comes to the same one.
Result<Judged> judge(const SiteFrame& frame, const Round& round, const Dialect& dialect) {
  const Expected expected{dialect.agreement, round, frame.site, dialect.part};
  const Result<Opened> opened = thinwire::open(frame.bytes, expected);
  if (!opened) return Result<Judged>::refuse(opened.why());
  Result<Update> update = decode(opened->payload, {dialect.floats, dialect.tile_coefficients});
  if (!update) return Result<Judged>::refuse(update.why());
  if (!finite_floats(*update)) return Result<Judged>::refuse("its values are not finite");
  if (std::string why = misfit(*update, dialect.form, dialect.floats); !why.empty()) {
    return Result<Judged>::refuse(std::move(why));
  }
  return Judged{opened->header.state_hash, std::move(*update)};
}

}  // namespace

void AllReduceSync::open(Dialect dialect) { dialect_ = std::move(dialect); }

// An all-reduce has no frames that could be refused: what must match is compared before the first.
// A mean is all that a collective between sites need offer: bytes are equal everywhere if their
// mean is ours and the mean of their squares its square. Both are exact in floats for up to 256
// sites.
void AllReduceSync::agree() {
  constexpr std::size_t kBytes = sizeof(dialect_.agreement);
  std::array<float, 2 * kBytes> mine;
  for (std::size_t i = 0; i < kBytes; ++i) {
    mine[i] = static_cast<float>(dialect_.agreement >> (8 * i) & 0xff);
    mine[kBytes + i] = mine[i] * mine[i];
  }
  std::array<float, 2 * kBytes> mean = mine;
  far_.all_reduce_mean(mean);
  if (mean != mine) {
    throw Error("another site runs another layout or settings than site " +
                std::to_string(far_.rank()) + "; give all sites the same configuration");
  }
  agreed_ = true;
}

void AllReduceSync::complain_of(const std::vector<int>& sites) {
  for (const int site : sites) {
    complaints_.push_back("site " + std::to_string(site) +
                          " holds another replica than most sites; replicas have diverged");
  }
}

std::vector<std::string> AllReduceSync::take_complaints() { return std::exchange(complaints_, {}); }

// The weight of a site (1: it speaks, 0: its gradient was not finite) is averaged with its values,
// so that the mean is over the sites that spoke. Done in place: models are large.
Heard AllReduceSync::exchange(const Step&, int, std::uint64_t state_hash, Update mine) {
  TW_CHECK(mine.picks.positions.empty());
  TW_CHECK(mine.dense.empty() || mine.dense.size() == dialect_.floats);
  if (!agreed_ && !far_.agreed()) agree();
  const float speaks = mine.dense.empty() ? 0.0f : 1.0f;
  mine.dense.resize(dialect_.floats, 0.0f);
  mine.dense.push_back(speaks);
  push_replica(mine.dense, state_hash, far_.rank(), far_.size());
  far_.all_reduce_mean(mine.dense);
  const float weight = mine.dense[dialect_.floats];
  Heard heard;
  compare(replicas_in(ConstFloats(mine.dense).subspan(dialect_.floats + 1)), state_hash, heard);
  if (!heard.diverged.empty()) complain_of(heard.diverged);
  mine.dense.resize(dialect_.floats);
  if (weight == 0.0f || dialect_.floats == 0) return heard;
  if (weight != 1.0f) {
    for (float& value : mine.dense) value /= weight;
  }
  heard.contributions.push_back({far_.rank(), std::move(mine)});
  return heard;
}

DelayedSync::DelayedSync(Exchange& far, Options options) : far_(far), options_(options) {
  if (options.delay < 0 || options.delay > 8) throw UsageError("delay must be from 0 to 8");
}

void DelayedSync::open(Dialect dialect) { dialect_ = std::move(dialect); }

Round DelayedSync::round_of(const Step& step, int phase) const {
  return {options_.epoch, step.round, static_cast<std::uint32_t>(phase)};
}

Heard DelayedSync::exchange(const Step& step, int phase, std::uint64_t state_hash, Update mine) {
  const Round round = round_of(step, phase);
  InFlight said{step, state_hash, std::move(mine)};
  if (phase > 0) {
    if (!far_.missed(round)) post(round, state_hash, coded(said.update));
    return collect(round, said);
  }
  // In flight from here on, also if the link is gone: the optimizer owes it no more.
  in_flight_.push_back(std::move(said));
  post(round, state_hash, coded(in_flight_.back().update));
  return hear(step);
}

Bytes DelayedSync::coded(const Update& update) const {
  return encode(update, {dialect_.floats, dialect_.tile_coefficients});
}

void DelayedSync::post(const Round& round, std::uint64_t state_hash, ByteView payload) {
  const Header header{dialect_.agreement, round, far_.site(), dialect_.part, state_hash};
  far_.post(round, seal(header, payload));
}

std::vector<SiteFrame> DelayedSync::tell(const Step& step, int phase, Bytes mine) {
  Round round = round_of(step, phase);
  if (!step.speaks) --round.number;  // that of this number comes later, and in order
  post(round, kNoStateHash, mine);
  std::vector<SiteFrame> words;
  for (const SiteFrame& frame : far_.collect(round).frames) {
    const Expected expected{dialect_.agreement, round, frame.site, dialect_.part};
    const Result<Opened> opened = thinwire::open(frame.bytes, expected);
    if (opened) {
      words.push_back({frame.site, Bytes(opened->payload.begin(), opened->payload.end())});
    } else {
      ++refused_;
      complain(round, frame.site, "refused: " + opened.why());
    }
  }
  return words;
}

void DelayedSync::resume(const Step&, std::vector<InFlight> said) {
  in_flight_.assign(std::move_iterator(said.begin()), std::move_iterator(said.end()));
  for (const InFlight& one : in_flight_) {
    const Round round = round_of(one.step, 0);
    if (one.step.speaks && !far_.missed(round)) post(round, one.state_hash, coded(one.update));
  }
}

std::vector<InFlight> DelayedSync::in_flight() const {
  return {in_flight_.begin(), in_flight_.end()};
}

Heard DelayedSync::listen(const Step& step, std::uint64_t state_hash) {
  in_flight_.push_back({step, state_hash, {}});
  return hear(step);
}

Heard DelayedSync::keep_silent(const Step& step) {
  in_flight_.push_back({step, kNoStateHash, {}});
  return hear(step);
}

// What is due stays in flight until its result is here: the wait may end with the program.
Heard DelayedSync::hear(const Step&) {
  if (in_flight_.size() <= static_cast<std::size_t>(options_.delay)) return {};
  InFlight& due = in_flight_.front();
  Heard heard = due.step.speaks ? collect(round_of(due.step, 0), due) : Heard{};
  in_flight_.pop_front();
  heard.age = options_.delay;
  return heard;
}

void DelayedSync::complain(const Round& round, int site, const std::string& why) {
  complaints_.push_back("round " + std::to_string(round.number) + ", site " + std::to_string(site) +
                        ": " + why);
}

Heard DelayedSync::collect(const Round& round, InFlight& said) {
  Heard heard;
  bool included = false;
  Replicas replicas;
  for (const SiteFrame& frame : far_.collect(round).frames) {
    Result<Judged> judged = judge(frame, round, dialect_);
    if (!judged) {
      ++refused_;
      complain(round, frame.site, "refused: " + judged.why());
      continue;
    }
    if (judged->state_hash != kNoStateHash) replicas.emplace_back(frame.site, judged->state_hash);
    included = included || frame.site == far_.site();
    if (!judged->update.empty()) {
      heard.contributions.push_back({frame.site, std::move(judged->update)});
    }
  }
  compare(replicas, said.state_hash, heard);
  for (const int site : heard.diverged) {
    complain(round, site,
             heard.of_most < 0 ? "holds another replica than this site, and no majority says which "
                                 "is right; replicas have diverged"
                               : "holds another replica than most sites");
  }
  if (!included && !said.update.empty()) {
    heard.unheard.push_back({said.step, std::move(said.update)});
  }
  return heard;
}

Traffic DelayedSync::traffic() const {
  Traffic traffic = far_.traffic();
  traffic.refused += refused_;
  return traffic;
}

std::vector<std::string> DelayedSync::take_complaints() { return std::exchange(complaints_, {}); }

}  // namespace thinwire
