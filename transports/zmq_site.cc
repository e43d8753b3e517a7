#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "transports/zmq_pieces_internal.h"
#include "transports/zmq_site_internal.h"

namespace thinwire::hub {
namespace {

constexpr double kHelloEach = 1.0;
constexpr double kPauseFirst = 0.05;
constexpr double kPauseMax = 2.0;
constexpr double kDialMax = 10.0;
constexpr int kStrangeMax = 4;
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
               .again_s = options_.peer_timeout_s,
               .rounds_kept = options_.rounds_kept}),
      now_(now),
      since_(now),
      heard_at_(now),
      dial_at_(now),
      hello_at_(now),
      ping_at_(now) {
  TW_CHECK(!options_.hubs.empty());
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
  strange_ = 0;
}

void Site::lost(const std::string& why, bool strange) {
  if (link_ == Link::none) return;
  const bool was_member = link_ == Link::member;
  trouble_ = address() + ": " + why;
  if (was_member) log_.push_back("lost the hub at " + trouble_);
  link_ = Link::none;
  // A hub that was there is likely to be back at once; else it is the next one's turn.
  pause_s_ = was_member ? 0.0 : std::min(kPauseMax, std::max(kPauseFirst, 2.0 * pause_s_));
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
  const bool silent = now_ - heard_at_ > options_.peer_timeout_s;
  if (reachable && !silent) {
    alone_s_ = 0.0;
  } else {
    alone_s_ += std::min(passed, kAwakeMax);
  }
  if (link_ == Link::none && !leaving_ && now_ >= dial_at_) dial();
  if (link_ == Link::dialling &&
      now_ - since_ > std::min(kDialMax, std::max(1.0, options_.peer_timeout_s))) {
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

Hello Site::hello() const {
  Hello hello;
  hello.run = options_.run;
  hello.site = options_.site;
  hello.process = options_.process;
  hello.agreement = options_.agreement;
  hello.agreed = options_.agreed;
  hello.parts = options_.parts;
  hello.next_round = rounds_.next_round();
  hello.ahead = rounds_.ahead();
  hello.number = number_;
  hello.epoch = epoch_;
  return hello;
}

void Site::receive(Message message, std::size_t bytes) {
  if (failure_ || link_ == Link::none || link_ == Link::dialling) return;
  heard_at_ = now_;
  greeted_ = true;
  if (auto* closed = std::get_if<Closed>(&message)) {
    const std::string why = rounds_.close(std::move(*closed), bytes);
    if (!why.empty()) fail("the hub at " + address() + " is not to be trusted: " + why, false);
    return;
  }
  heard(message);
}

void Site::heard(const Message& message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) return on(*welcome);
  if (const auto* refused = std::get_if<Refused>(&message)) return on(*refused);
  if (const auto* taken = std::get_if<Taken>(&message)) return rounds_.taken(taken->slot);
  if (const auto* missing = std::get_if<Missing>(&message)) {
    if (auto bundle = rounds_.bundle(missing->slot)) give(*bundle);
    return;
  }
  const auto* pong = std::get_if<Pong>(&message);
  if (!pong) return;
  epoch_ = std::max(epoch_, pong->epoch);
  if (pong->active || link_ != Link::member) return;
  log_.push_back("the hub had taken this site for dead; it says hello again");
  link_ = Link::greeting;
  hello_at_ = now_;
}

void Site::on(const Welcome& welcome) {
  if (begun() && (welcome.site != number_ || welcome.sites != sites_)) {
    return fail("the hub at " + address() + " gives this site another number: another run", false);
  }
  const bool other_hub = begun() && welcome.hub != hub_id_;
  if (begun() && link_ != Link::member) {
    log_.push_back("back at the hub " + address() + ", round " +
                   std::to_string(welcome.next_round) + " is open");
  }
  link_ = Link::member;
  number_ = welcome.site;
  sites_ = welcome.sites;
  hub_id_ = welcome.hub;
  epoch_ = std::max(epoch_, welcome.epoch);
  pause_s_ = 0.0;
  trouble_.clear();
  rounds_.welcome(welcome.site, welcome.next_round, other_hub);
}

// Asked for again while it waits, it goes once.
void Site::give(const Bundle& bundle) {
  Bytes bytes = encode(bundle);
  if (std::find(control_.begin(), control_.end(), bytes) == control_.end())
    control_.push_back(std::move(bytes));
}

void Site::on(const Refused& refused) {
  if (refused.final) {
    return fail("the hub at " + address() + " refuses this site: " + refused.why, false);
  }
  if (trouble_ != refused.why) log_.push_back("not yet let in: " + refused.why);
  trouble_ = refused.why;
}

std::optional<Bytes> Site::next_out(Length length) {
  if (failure_ || link_ == Link::none || link_ == Link::dialling) return std::nullopt;
  if (leaving_ && control_.empty()) return std::nullopt;
  if (link_ == Link::greeting && now_ >= hello_at_) {
    hello_at_ = now_ + kHelloEach;
    return encode(hello());
  }
  if (now_ >= ping_at_) {
    ping_at_ = now_ + options_.peer_timeout_s / 4.0;
    return encode(Ping{rounds_.step()});
  }
  const bool in_between = length == Length::in_between;
  if (!control_.empty() && !(in_between && control_.front().size() > kPieceBytes)) {
    Bytes bytes = std::move(control_.front());
    control_.pop_front();
    return bytes;
  }
  if (in_between || link_ != Link::member) return std::nullopt;
  return rounds_.next(now_);
}

void Site::leave() {
  leaving_ = true;
  if (link_ == Link::greeting || link_ == Link::member) control_.push_back(encode(Bye{}));
}

std::vector<std::string> Site::take_log() { return std::exchange(log_, {}); }

}  // namespace thinwire::hub
