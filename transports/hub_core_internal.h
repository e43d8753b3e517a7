// The hub's judgement without sockets or clocks of its own: who is a member, which rounds are open,
// who took part in which. Every input carries the time; outputs are messages to be sent.
// Deterministic, so tests replay any history. One thread. Internal to transports/ and apps/.
//
// Its state can always be rebuilt from the sites: a new hub learns from their hellos how far each
// one is, fetches closed rounds that some have and others lack, and gets the open ones posted
// again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transports/hub_messages_internal.h"
#include "transports/timeouts_internal.h"

namespace thinwire::hub {

// A peer is a connection (ZeroMQ routing id, or a test's label), not yet a site.
using Peer = std::string;

struct CoreOptions {
  std::string run;        // run id; hellos of another are refused
  std::uint64_t hub = 1;  // random number of this hub process
  int sites = 2;          // places: how many can be in the run at once
  // With fewer the run neither begins nor goes on. 0: it begins when all places are taken, and goes
  // on with any.
  int min_sites = 0;
  double peer_timeout_s = 10.0;  // silence after which a site is taken for dead
  // A round closes this long after its first post at the latest; before that, after `patience`
  // times the median time that recent rounds took to be complete, but not below `shortest_s` or
  // half of the median time between the first posts of recent rounds.
  double round_deadline_s = 60.0;
  double patience = timeouts::kRoundPatience;
  double shortest_s = 1.0;
  std::size_t rounds_kept = 64;  // closed rounds kept for sites that are behind
  // Of all frames held; the oldest closed rounds go first.
  std::size_t bytes_max = std::size_t{2} << 30;
  // Of a peer, for people: log and status. Without it the peer's own bytes are shown.
  std::function<std::string(const Peer&)> address{};
};

struct Out {
  Peer to;
  Message message;
};

class Core {
 public:
  explicit Core(CoreOptions options);
  ~Core();

  // A message from a peer; `key` is its authenticated public key in Z85, empty without CURVE: a
  // site's name belongs to the first key that used it.
  std::vector<Out> receive(double now, const Peer& peer, const std::string& key, Message message);
  // A piece of a message that is not whole yet: a sign of life.
  void alive(double now, const Peer& peer);
  // The connection of that peer ended: what is sent to it goes nowhere.
  void gone(double now, const Peer& peer);
  // To be called at next_tick() or later.
  std::vector<Out> tick(double now);
  double next_tick() const;

  // Bytes that could not even be decoded, counted by reason and logged with the peer's address.
  void refuse(const std::string& reason);

  std::string status_json(double now) const;   // docs/far_link.md lists the keys
  std::string metrics_text(double now) const;  // Prometheus text format
  // Lines for the log since the last call.
  std::vector<std::string> take_log();

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire::hub
