// Where a run goes on: from a saved state, or from that of another site.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "src/core/replica.h"
#include "src/core/trainer_body.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

// Of a state that another site gives: rounds up to there are counted in seconds.
constexpr std::uint64_t kStepsMax = std::uint64_t{1} << 32;

}  // namespace

bool Trainer::Body::speaks(std::uint64_t index) const {
  Step step;
  step.index = index;
  step.sites = options_.sites;
  return optimizer_.speaks(step);
}

// Does that step apply a round?
bool Trainer::Body::hears(std::uint64_t index) const {
  const auto delay = static_cast<std::uint64_t>(traits_.delay);
  return index >= delay && speaks(index - delay);
}

// Of the state at the start of this step, which hears a round: that round's number and the delay
// more, so that what it lacks are the last `delay` rounds before it. With a round in every step it
// is the step.
std::uint64_t Trainer::Body::state_number() const {
  const auto delay = static_cast<std::uint64_t>(traits_.delay);
  std::uint64_t heard = round_;
  for (std::uint64_t index = index_ - std::min(delay, index_); index < index_; ++index) {
    heard -= speaks(index) ? 1 : 0;
  }
  return heard + delay;
}

// Only steps that may have to wait for a round have a state for others: there all sites stop
// together when the run stands still.
void Trainer::Body::offer_state() {
  if (!options_.states || !hears(index_)) return;
  options_.states->at_step(state_number(), [this] { return pack(); });
}

// The replica, which rounds a repair has made old news, and the step.
Bytes Trainer::Body::pack() const {
  Bytes bytes = pack_replica(shard_);
  const std::array<std::uint64_t, 2> words{repaired_before_, index_};
  const ByteView tail = std::as_bytes(std::span(words));
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  return bytes;
}

// What this site owed to the others went with its replica: it may have been heard.
void Trainer::Body::take_over() {
  const RunState state = options_.states->take(traits_.delay);
  std::array<std::uint64_t, 2> words;
  if (state.bytes.size() < sizeof words) throw Error("the run's state is cut short");
  const std::size_t replica = state.bytes.size() - sizeof words;
  unpack_replica(ByteView(state.bytes).first(replica), shard_);
  std::memcpy(words.data(), state.bytes.data() + replica, sizeof words);
  const auto [repaired_before, step] = words;
  if (step > kStepsMax) throw Error("the run's state is of no step that can be");
  took_over_ = true;
  go_on({.step = step, .repaired_before = repaired_before});
  if (state.step != state_number()) {
    throw Error("the run's state is of step " + std::to_string(step) + " and of round " +
                std::to_string(state.step) + ", which do not fit; give all sites the same method");
  }
}

// The steps before this one whose results are still to be applied. The others may wait for a word
// of this site in their rounds, which has nothing to say in those that it does not know, and no
// hash of a replica that it did not have.
std::vector<InFlight> Trainer::Body::unheard(std::vector<InFlight> known) const {
  std::vector<InFlight> all;
  Step step;
  step.index = index_ - std::min<std::uint64_t>(traits_.delay, index_);
  step.sites = options_.sites;
  step.round = rounds_before(optimizer_, step.index, options_.sites);
  for (; step.index <= index_; ++step.index) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const InFlight& one) {
      return one.step.index == step.index;
    });
    if (step.index == index_ && found == known.end()) break;
    InFlight one{step, 0, {}};
    if (found != known.end()) one = std::move(*found);
    one.step.round = step.round;
    one.step.speaks = speaks(step.index);
    step.round += one.step.speaks ? 1 : 0;
    all.push_back(std::move(one));
  }
  return all;
}

void Trainer::Body::go_on(Progress progress) {
  index_ = progress.step;
  round_ = rounds_before(optimizer_, index_, options_.sites);
  repaired_before_ = progress.repaired_before;
  spoken_ = progress.spoken() && traits_.meeting == Meeting::gather;
  applying_ = false;
  units_.take_from(shard_.params());
  Step step;
  step.index = index_;
  step.sites = options_.sites;
  step.round = round_;
  step.speaks = speaks(index_);
  if (traits_.meeting != Meeting::nothing) {
    sync_.resume(step, unheard(std::move(progress.in_flight)));
  }
}

}  // namespace thinwire
