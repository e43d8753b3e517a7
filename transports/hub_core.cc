#include <algorithm>
#include <bit>

#include "transports/hub_body_internal.h"
#include "transports/hub_core_internal.h"
#include "transports/timeouts_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kLogLinesMax = 1000;  // between two calls of take_log
constexpr std::size_t kReasonsMax = 64;
constexpr std::uint64_t kLoggedEach = 16;  // of a reason; after that the 32nd, the 64th, ...
constexpr std::size_t kShownMax = 400;     // characters of what came from outside

bool printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

std::vector<Out> Core::Body::receive(double now, const Peer& peer, const std::string& key,
                                     Message message) {
  forgive_own_stall(now);
  if (auto* hello = std::get_if<Hello>(&message)) {
    this->hello(peer, key, std::move(*hello));
  } else if (std::holds_alternative<AskStatus>(message)) {
    send(peer, Status{status_json(now)});
  } else if (const auto found = peers_.find(peer); found == peers_.end()) {
    from_stranger(peer, message);
  } else {
    from_site(*found->second, std::move(message));
  }
  return settle();
}

// A site that does not know that this hub is a new one: told to say hello.
void Core::Body::from_stranger(const Peer& peer, const Message& message) {
  if (std::holds_alternative<Ping>(message)) {
    send(peer, Pong{epoch_, false, token(), first_open()});
  } else {
    refuse("unknown peer", "a message from " + address(peer) + ", which has not said hello");
  }
}

void Core::Body::from_site(Site& site, Message message) {
  site.bytes_up += encoded_size(message);
  site.last_seen = now_;
  if (auto* ping = std::get_if<Ping>(&message)) {
    if (!site.takeover) site.step = std::max(site.step, ping->round);
    const bool stood_still = !enough();
    if (ping->echo != 0) site.lease = from_token(ping->echo) + options_.peer_timeout_s;
    go_on(stood_still);
    if (site.takeover && ping->taken == site.takeover->step) arrived(site);
    await_if_near(site);
    send(site,
         Pong{epoch_, site.active || !begun_, token(), first_open(), site.awaited || !begun_});
    // It may find the others at another hub.
    if (site.hubs > 1 && (!begun_ || !enough()))
      send(site, Refused{"the run stands still here, it needs " +
                             std::to_string(options_.min_sites) + " sites",
                         false});
    return;
  }
  if (std::holds_alternative<Bye>(message)) {
    if (!begun_) {
      log("site " + site.name + " says goodbye before the run begins");
      return forget(std::string(site.name));
    }
    site.left = true;
    return leave(site, "says goodbye");
  }
  if (!begun_ || !site.active) {
    refuse("inactive", "a message from site " + site.name + ", which is not in the run now");
    return send(site, Pong{epoch_, false, token(), first_open()});
  }
  if (auto* fetch = std::get_if<Fetch>(&message)) return fetch_state(site, *fetch);
  // What a site says of rounds before it has taken the state over is of its useless replica.
  if (site.takeover) return;
  if (auto* chunk = std::get_if<Chunk>(&message)) return this->chunk(site, std::move(*chunk));
  if (auto* none = std::get_if<NoState>(&message)) return no_state(site, none->step);
  if (auto* post = std::get_if<Post>(&message)) return this->post(site, std::move(*post));
  if (auto* want = std::get_if<Want>(&message)) return this->want(site, want->slot);
  if (auto* bundle = std::get_if<Bundle>(&message)) return this->bundle(site, std::move(*bundle));
  refuse("direction", "site " + site.name + " sends what only a hub says");
}

void Core::Body::alive(double now, const Peer& peer) {
  forgive_own_stall(now);
  if (const auto found = peers_.find(peer); found != peers_.end()) found->second->last_seen = now_;
}

// The site may dial again at any time; another process of its name need not wait for it.
void Core::Body::gone(double now, const Peer& peer) {
  forgive_own_stall(now);
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  found->second->peer.clear();
  peers_.erase(found);
}

std::vector<Out> Core::Body::tick(double now) {
  forgive_own_stall(now);
  check_liveness();
  if (!begun_) try_to_begin();
  return settle();
}

// Whatever came in: what follows from it.
std::vector<Out> Core::Body::settle() {
  if (begun_) {
    ask_again();
    close_ready();
  }
  due_ = next_tick();
  return std::exchange(out_, {});
}

// While this process was stopped or starved nobody could be heard; that is not held against sites.
void Core::Body::forgive_own_stall(double now) {
  const double stall = now - due_;
  now_ = std::max(now_, now);
  if (!(stall > timeouts::own_stall(options_.peer_timeout_s))) return;
  for (auto& [name, site] : sites_) site.last_seen = now_;
  for (auto& [key, round] : open_) round.first = std::min(now_, round.first + stall);
  log("the hub itself stood still for " + std::to_string(stall) + " s");
}

double Core::Body::next_tick() const {
  double next = kNever;
  for (const auto& [name, site] : sites_) {
    if (site.active || !begun_)
      next = std::min(next, site.last_seen + timeouts::site_dead(options_.peer_timeout_s));
  }
  if (!begun_) {
    const double since = std::min(evidence_at(), enough_at_);
    return std::min(next, since + timeouts::restart_wait(options_.peer_timeout_s));
  }
  for (const auto& [key, fetch] : fetches_) next = std::min(next, fetch.again);
  if (!enough()) return next;
  std::set<Kind> seen;
  for (const auto& [key, round] : open_) {
    if (seen.insert(key.kind).second && !held(key)) next = std::min(next, deadline(round));
  }
  return next;
}

// Of the hub's clock; never 0.
std::uint64_t Core::Body::token() const { return static_cast<std::uint64_t>(now_ * 1e6) + 1; }
double Core::Body::from_token(std::uint64_t token) const {
  return std::min(now_, static_cast<double>(token - 1) * 1e-6);
}

void Core::Body::send(const Peer& to, Message message) { out_.push_back({to, std::move(message)}); }

void Core::Body::send(Site& to, Message message) {
  if (to.peer.empty()) return;  // it lost its connection to another site; it says hello again
  to.bytes_down += encoded_size(message);
  send(to.peer, std::move(message));
}

void Core::Body::log(const std::string& line) {
  if (log_.size() < kLogLinesMax) log_.push_back(line);
}

void Core::Body::refuse(const std::string& reason, const std::string& line) {
  const bool known = refused_.contains(reason) || refused_.size() < kReasonsMax;
  const std::uint64_t count = ++refused_[known ? reason : "other"];
  if (count > kLoggedEach && !std::has_single_bit(count)) return;
  log("refused (" + reason + ", " + std::to_string(count) + " so far): " + line);
}

void Core::Body::refuse(const std::string& reason) { refuse(reason, reason); }

std::string Core::Body::address(const Peer& peer) const {
  if (options_.address) return options_.address(peer);
  if (std::all_of(peer.begin(), peer.end(), printable)) return peer.substr(0, kShownMax);
  std::string hex = "0x";
  for (const char c : peer.substr(0, kShownMax)) {
    const auto byte = static_cast<unsigned char>(c);
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

Core::Core(CoreOptions options) : body_(std::make_unique<Body>(std::move(options))) {}
Core::~Core() = default;

std::vector<Out> Core::receive(double now, const Peer& peer, const std::string& key,
                               Message message) {
  return body_->receive(now, peer, key, std::move(message));
}
void Core::alive(double now, const Peer& peer) { body_->alive(now, peer); }
void Core::gone(double now, const Peer& peer) { body_->gone(now, peer); }
std::vector<Out> Core::tick(double now) { return body_->tick(now); }
double Core::next_tick() const { return body_->next_tick(); }
void Core::refuse(const std::string& reason) { body_->refuse(reason); }
std::string Core::status_json(double now) const { return body_->status_json(now); }
std::string Core::metrics_text(double) const { return body_->metrics_text(); }
std::vector<std::string> Core::take_log() { return std::exchange(body_->log_, {}); }

}  // namespace thinwire::hub
