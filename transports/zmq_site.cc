#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "transports/timeouts_internal.h"
#include "transports/zmq_pieces_internal.h"
#include "transports/zmq_site_internal.h"

namespace thinwire::hub {

using timeouts::kHelloEach;
using timeouts::kPauseFirst;
using timeouts::kPauseMax;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kStrangeMax = 4;
constexpr double kPingLeast = 0.005;
constexpr double kTickMin = 0.001;
constexpr double kTickMax = 0.1;
// A tick that comes this late was late because the process or the machine stood still.
constexpr double kAwakeMax = 1.0;

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", value);
  return text;
}

std::string list(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

Site::Site(SiteOptions options, double now)
    : options_(std::move(options)),
      rounds_({.parts = options_.parts,
               .again_s = timeouts::repeat_each(options_.peer_timeout_s),
               .rounds_kept = options_.rounds_kept}),
      state_(options_.parts, options_.peer_timeout_s),
      born_(now),
      now_(now),
      since_(now),
      heard_at_(now),
      dial_at_(now),
      hello_at_(now),
      ping_at_(now) {
  TW_CHECK(!options_.hubs.empty());
  rounds_.begin_at(options_.first_round);
}

void Site::dial() {
  ++connection_;
  link_ = Link::dialling;
  since_ = now_;
  control_.clear();
}

void Site::connected() {
  if (link_ != Link::dialling) return;
  link_ = Link::greeting;
  since_ = heard_at_ = hello_at_ = ping_at_ = now_;
  echo_ = 0;
  strange_ = 0;
}

void Site::lost(const std::string& why, bool strange) {
  if (link_ == Link::none) return;
  const bool was_member = link_ == Link::member;
  trouble_ = address() + ": " + why;
  if (was_member) log_.push_back("lost the hub at " + trouble_);
  link_ = Link::none;
  // A hub that was there is likely to be back at once; else it is the next one's turn.
  const bool at_once = was_member && now_ - member_at_ > kPauseMax;
  pause_s_ = at_once ? 0.0 : std::min(kPauseMax, std::max(kPauseFirst, 2.0 * pause_s_));
  if (!was_member) hub_ = (hub_ + 1) % options_.hubs.size();
  dial_at_ = now_ + pause_s_;
  since_ = now_;
  strange_ = strange ? strange_ + 1 : 0;
  if (strange_ >= kStrangeMax && !begun()) turned_away(why);
}

void Site::turned_away(const std::string& why) {
  if (begun()) return lost(why);
  fail("the hub at " + address() + " does not let this site in: " + why, false);
}

void Site::fail(std::string why, bool hub_lost) {
  if (!failure_) failure_ = Failure{std::move(why), hub_lost};
  link_ = Link::none;
}

void Site::tick(double now) {
  const double passed = std::max(0.0, now - now_);
  now_ = std::max(now_, now);
  if (failure_) return;
  const bool reachable = link_ == Link::member || (link_ == Link::greeting && begun());
  const bool silent = now_ - heard_at_ > timeouts::hub_dead(options_.peer_timeout_s);
  if (reachable && !silent) {
    alone_s_ = 0.0;
  } else {
    alone_s_ += std::min(passed, kAwakeMax);
  }
  // A hub that still counts on this site could close a round with it that another hub decides
  // otherwise.
  if (promised_to_ && *promised_to_ != hub_ && options_.hubs.size() > 1) {
    dial_at_ = std::max(dial_at_, promised_until_);
  }
  if (link_ == Link::none && !leaving_ && now_ >= dial_at_) dial();
  show_progress();
  if (link_ == Link::dialling && now_ - since_ > timeouts::dial_patience(options_.peer_timeout_s)) {
    lost("no answer");
  }
  if ((link_ == Link::greeting || link_ == Link::member) && silent) {
    const std::size_t next = (hub_ + 1) % options_.hubs.size();
    lost("silent for " + seconds(now_ - heard_at_));
    hub_ = next;
  }
  give_up_if_due();
}

double Site::next_tick() const {
  double next = now_ + kTickMax;
  if (link_ == Link::none) next = std::min(next, dial_at_);
  if (link_ == Link::greeting) next = std::min(next, hello_at_);
  if (link_ == Link::greeting || link_ == Link::member) {
    next = std::min({next, ping_at_, heard_at_ + options_.peer_timeout_s});
  }
  return std::max(next, now_ + kTickMin);
}

void Site::give_up_if_due() {
  if (begun()) {
    if (outdated() && !state_.complete() && now_ - state_.progress_at() > options_.hub_timeout_s &&
        now_ - outdated_at_ > options_.hub_timeout_s) {
      return fail("nobody has given this site the run's state for " +
                      seconds(options_.hub_timeout_s) + "; it needs it because it " + outdated_,
                  true);
    }
    if (alone_s_ <= options_.hub_timeout_s) return;
    return fail("no hub for " + seconds(options_.hub_timeout_s) + ", tried " + list(options_.hubs) +
                    "; the last trouble was " + trouble_,
                true);
  }
  if (alone_s_ <= options_.connect_timeout_s) return;
  const std::string within = " within " + seconds(options_.connect_timeout_s);
  if (!greeted_) {
    return fail("no hub answered" + within + ", tried " + list(options_.hubs) +
                    (trouble_.empty() ? "" : "; the last trouble was " + trouble_) +
                    "; start one with thinwire hub",
                true);
  }
  fail("the hub at " + address() + " is there, but the run has not begun" + within +
           (trouble_.empty() ? ": not all of its sites are there" : ": " + trouble_),
       true);
}

// The hub takes a silent site for dead by its own peer timeout, which may be the shorter one.
double Site::ping_each() const {
  const double hub = lease_s_ > 0.0 ? lease_s_ : options_.peer_timeout_s;
  return timeouts::ping_each(std::min(hub, options_.peer_timeout_s));
}

Hello Site::hello() const {
  Hello hello;
  hello.run = options_.run;
  hello.site = options_.site;
  hello.process = options_.process;
  hello.agreement = options_.agreement;
  hello.agreed = options_.agreed;
  hello.parts = options_.parts;
  hello.hubs = static_cast<std::uint32_t>(options_.hubs.size());
  hello.gives = options_.gives_state;
  if (outdated()) {
    hello.taking = std::min(kAnyStep, state_.taking());
  } else {
    hello.taken = taken_;
    hello.next_round = rounds_.next_round();
    hello.ahead = rounds_.ahead();
    hello.recent = rounds_.recent();
  }
  hello.number = number_;
  hello.epoch = epoch_;
  return hello;
}

void Site::receive(Message message, std::size_t bytes) {
  if (failure_ || link_ == Link::none || link_ == Link::dialling) return;
  heard_at_ = now_;
  greeted_ = true;
  if (auto* chunk = std::get_if<Chunk>(&message)) {
    state_.chunk(std::move(*chunk), now_);
    return;
  }
  if (outdated() && on_state(message)) return;
  if (auto* closed = std::get_if<Closed>(&message)) {
    if (link_ != Link::member) return;
    const std::string why = rounds_.close(std::move(*closed), bytes);
    if (!why.empty()) fail("the hub at " + address() + " is not to be trusted: " + why, false);
    return;
  }
  heard(message);
}

void Site::heard(const Message& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) return on(*welcome);
  if (const auto* refused = std::get_if<Refused>(&message)) return on(*refused);
  if (on_state(message)) return;
  if (const auto* taken = std::get_if<Taken>(&message)) return rounds_.taken(taken->slot);
  if (const auto* missing = std::get_if<Missing>(&message)) {
    if (const auto bundle = rounds_.bundle(missing->slot)) {
      give(encode(*bundle));
    } else if (link_ == Link::member) {
      give(encode(Want{missing->slot}));  // not kept: it would have to ask for it itself
    }
    return;
  }
  if (const auto* pong = std::get_if<Pong>(&message)) on(*pong);
}

// True: it needs no other attention.
bool Site::on_state(const Message& message) {
  if (const auto* snapshot = std::get_if<Snapshot>(&message)) {
    state_.snapshot(snapshot->step);
    return true;
  }
  if (const auto* fetch = std::get_if<Fetch>(&message)) {
    state_.fetch(*fetch);
    return true;
  }
  const bool of_rounds = std::holds_alternative<Closed>(message) ||
                         std::holds_alternative<Taken>(message) ||
                         std::holds_alternative<Missing>(message);
  return outdated() && of_rounds;
}

void Site::on(const Pong& pong) {
  epoch_ = std::max(epoch_, pong.epoch);
  echo_ = pong.token;
  awaited_ = pong.awaited;
  // The state of a step that the run has yet to come to cannot be here.
  if (pong.next_round > open_ && open_ < state_.taking()) outdated_at_ = now_;
  open_ = std::max(open_, pong.next_round);
  if (link_ == Link::member && !outdated() && begun()) rounds_.heard_open(pong.next_round);
  if (pong.active || link_ != Link::member) return;
  log_.push_back("the hub had taken this site for dead; it says hello again");
  link_ = Link::greeting;
  hello_at_ = now_;
}

void Site::on(const Welcome& welcome) {
  // An answer to a hello from before the takeover was done says nothing new.
  const bool done = !outdated() && welcome.takeover == taken_;
  const bool takes_over = welcome.takeover != kNoStep && !done;
  const bool other_place = !takes_over && welcome.site != number_;
  if (begun() && (other_place || welcome.sites != sites_)) {
    return fail("the hub at " + address() + " gives this site another number: another run", false);
  }
  const bool other_hub = begun() && welcome.hub != hub_id_;
  if (begun() && link_ != Link::member) {
    log_.push_back("back at the hub " + address() + ", round " +
                   std::to_string(welcome.next_round) + " is open");
  }
  if (takes_over) {
    if (!begun()) entered_late_ = true;
    if (!outdated()) outdated_at_ = now_;
    if (!outdated()) outdated_ = begun() ? "was left too far behind" : "enters a run under way";
    if (state_.taking() != welcome.takeover) {
      shown_ = 0.0;
      log_.push_back("takes over the state of step " + std::to_string(welcome.takeover));
    }
    state_.take_over(welcome.takeover, now_);
  }
  if (outdated() && !takes_over) {  // of an earlier hello
    link_ = Link::greeting;
    return;
  }
  if (link_ != Link::member) member_at_ = now_;
  link_ = Link::member;
  awaited_ = false;
  number_ = welcome.site;
  sites_ = welcome.sites;
  hub_id_ = welcome.hub;
  epoch_ = std::max(epoch_, welcome.epoch);
  pause_s_ = 0.0;
  trouble_.clear();
  lease_s_ = welcome.lease_ms * 1e-3;
  open_ = welcome.next_round;
  if (!outdated()) rounds_.welcome(welcome.site, welcome.next_round, other_hub);
}

void Site::give_up_replica(const std::string& why) {
  if (outdated() || failure_) return;
  outdated_ = why;
  outdated_at_ = now_;
  if (link_ != Link::member) return;
  link_ = Link::greeting;
  hello_at_ = now_;
}

std::vector<RunState> Site::resume(std::uint64_t in_flight) {
  const std::uint64_t step = state_.taking();
  std::vector<RunState> states;
  for (Bytes& bytes : state_.take()) states.push_back({step, std::move(bytes)});
  taken_ = step;
  outdated_.clear();
  rounds_.restart(number_, step - std::min(step, in_flight), open_);
  ping_at_ = now_;  // the hub waits for this word
  log_.push_back("has the state of step " + std::to_string(step) + ", goes on from there");
  return states;
}

void Site::show_progress() {
  if (!outdated() || state_.progress() < shown_ + 0.1) return;
  shown_ = state_.progress();
  log_.push_back("has " + std::to_string(static_cast<int>(100.0 * shown_)) +
                 " % of the state of step " + std::to_string(state_.taking()));
}

// Asked for again while it waits, it goes once.
void Site::give(Bytes bytes) {
  if (std::find(control_.begin(), control_.end(), bytes) == control_.end())
    control_.push_back(std::move(bytes));
}

void Site::on(const Refused& refused) {
  if (refused.final) {
    return fail("the hub at " + address() + " refuses this site: " + refused.why, false);
  }
  if (trouble_ != refused.why) log_.push_back("not yet let in: " + refused.why);
  trouble_ = refused.why;
  if (now_ - refused_at_ > options_.peer_timeout_s) refused_since_ = now_;
  refused_at_ = now_;
  // Perhaps the others are elsewhere. At the first hub sites wait longer, so that they do not pass
  // by each other.
  const std::size_t hubs = options_.hubs.size();
  const double patience = (hub_ == 0 ? 6.0 : 3.0) * options_.peer_timeout_s;
  if (hubs == 1 || now_ - refused_since_ < patience) return;
  const std::size_t next = (hub_ + 1) % hubs;
  refused_at_ = -kNever;
  lost(refused.why);
  hub_ = next;
}

std::optional<Encoded> Site::next_out(Length length) {
  if (failure_ || link_ == Link::none || link_ == Link::dialling) return std::nullopt;
  if (leaving_ && control_.empty()) return std::nullopt;
  if (link_ == Link::greeting && now_ >= hello_at_) {
    hello_at_ = now_ + kHelloEach;
    return encode(hello());
  }
  // While it catches up the hub is told of every step, and waits for it when it is near.
  const std::uint64_t step = std::max(rounds_.step(), state_.position());
  const bool behind = link_ == Link::member && !awaited_ && !outdated() && step != pinged_;
  if (now_ >= ping_at_ || (behind && now_ >= pinged_at_ + kPingLeast)) {
    ping_at_ = now_ + ping_each();
    pinged_at_ = now_;
    pinged_ = step;
    if (link_ == Link::member) {
      promised_to_ = hub_;
      promised_until_ = now_ + std::max(lease_s_, options_.peer_timeout_s);
    }
    // A promise to this hub. A process that was here before may have given one to another.
    const double promised = std::max(lease_s_, options_.peer_timeout_s);
    const bool free = link_ == Link::member && !(entered_late_ && now_ < born_ + promised);
    return encode(Ping{step, outdated() ? kNoStep : taken_, free ? echo_ : 0});
  }
  const bool in_between = length == Length::in_between;
  if (!control_.empty() && !(in_between && control_.front().size() > kPieceBytes)) {
    Bytes bytes = std::move(control_.front());
    control_.pop_front();
    return bytes;
  }
  if (in_between || link_ != Link::member) return std::nullopt;
  if (!outdated()) {
    if (auto bytes = rounds_.next(now_)) return bytes;
  }
  if (const auto message = state_.next(now_)) return encode(*message);
  return std::nullopt;
}

void Site::leave() {
  leaving_ = true;
  if (link_ == Link::greeting || link_ == Link::member) control_.push_back(encode(Bye{}));
}

std::vector<std::string> Site::take_log() { return std::exchange(log_, {}); }

}  // namespace thinwire::hub
