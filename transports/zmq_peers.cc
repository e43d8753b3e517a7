#include <algorithm>
#include <utility>

#include "transports/zmq_address_internal.h"
#include "transports/zmq_peers_internal.h"

namespace thinwire {
namespace {

constexpr std::size_t kPeersMax = 4096;

hub::Encoded take_first(std::deque<hub::Encoded>& queue) {
  hub::Encoded message = std::move(queue.front());
  queue.pop_front();
  return message;
}

}  // namespace

ZmqPeers::ZmqPeers(zmq::socket_t& router, ZmqPeersOptions options)
    : router_(router), options_(options) {}

const std::string& ZmqPeers::name_of(const zmq::message_t& routing_id, const char* address) {
  const std::string id = routing_id.to_string();
  auto known = names_.find(id);
  if (known == names_.end()) {
    if (peers_.size() >= kPeersMax) forget_the_longest_silent();
    const std::string name =
        (address == nullptr ? "unknown" : plain_ip(address)) + "#" + std::to_string(++numbered_);
    known = names_.emplace(id, name).first;
    peers_.emplace(name, Peer{.routing_id = id,
                              .flow = Flow(options_.wake_descriptor),
                              .joiner = hub::Joiner(options_.message_bytes)});
  }
  peers_.at(known->second).last_heard = ++arrivals_;
  return known->second;
}

void ZmqPeers::greeted(const std::string& peer) { peers_.at(peer).greeted = true; }

void ZmqPeers::welcomed(const std::string& name) {
  if (const auto peer = peers_.find(name); peer != peers_.end()) peer->second.welcomed = true;
}

Result<std::optional<hub::GrowingBytes>> ZmqPeers::join(const std::string& peer, ByteView piece) {
  Peer& from = peers_.at(peer);
  if (from.welcomed) return from.joiner.take(piece);
  return Result<std::optional<hub::GrowingBytes>>::refuse("a piece from one that is not welcome");
}

void ZmqPeers::send(const std::string& name, hub::Encoded message, Haste haste) {
  const auto peer = peers_.find(name);
  if (peer == peers_.end()) return;
  TW_CHECK(haste == Haste::in_order || message.size() <= hub::kPieceBytes);
  Peer& to = peer->second;
  if (haste == Haste::in_order && to.waits_already(message)) return;  // asked for again
  // One message of any size may wait.
  if (to.waits() && to.queue_bytes + message.size() > options_.queue_bytes) {
    lose(peer, "takes nothing, " + std::to_string(to.queue_bytes >> 20) + " MiB wait for it");
    return;
  }
  to.queue_bytes += message.size();
  (haste == Haste::urgent ? to.urgent : to.in_order).push_back(std::move(message));
  if (!flush(to)) lose(peer, "");
}

void ZmqPeers::probe(const Bytes& bytes) {
  std::vector<std::string> names;
  for (const auto& [name, peer] : peers_) {
    if (peer.greeted) names.push_back(name);
  }
  for (const std::string& name : names) send(name, bytes, Haste::urgent);
}

void ZmqPeers::send_waiting() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const auto next = std::next(peer);
    if (peer->second.waits() && !flush(peer->second)) lose(peer, "");
    peer = next;
  }
}

bool ZmqPeers::Peer::waits_already(const hub::Encoded& message) const {
  return (cutter && cutter->message() == message) ||
         std::ranges::find(in_order, message) != in_order.end();
}

bool ZmqPeers::flush(Peer& peer) {
  while (peer.waits() && peer.flow.has_room()) {
    try {
      const auto sent = router_.send(zmq::buffer(peer.routing_id),
                                     zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      if (!sent) return true;  // ZeroMQ's own bound in messages
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      if (error.num() == EHOSTUNREACH) return false;
      throw;
    }
    router_.send(peer.flow.wrap(next(peer)), zmq::send_flags::dontwait);
  }
  return true;
}

hub::SharedBytes ZmqPeers::next(Peer& peer) {
  if (peer.urgent.empty() && !peer.cutter && peer.in_order.front().size() > hub::kPieceBytes)
    peer.cutter.emplace(++cut_, take_first(peer.in_order));
  if (!peer.urgent.empty() || !peer.cutter) {
    hub::SharedBytes bytes = take_first(peer.urgent.empty() ? peer.in_order : peer.urgent).shared();
    peer.queue_bytes -= bytes.size();
    return bytes;
  }
  hub::SharedBytes piece = peer.cutter->next();
  peer.queue_bytes -= piece.size() - hub::kPieceHead;
  if (peer.cutter->done()) peer.cutter.reset();
  return piece;
}

void ZmqPeers::lose(Peers::iterator peer, const std::string& why) {
  lost_.push_back({peer->first, why});
  names_.erase(peer->second.routing_id);
  peers_.erase(peer);
}

void ZmqPeers::forget_the_longest_silent() {
  lose(std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.last_heard; }),
       "");
}

bool ZmqPeers::idle() const {
  return std::ranges::none_of(
      peers_, [](const auto& one) { return one.second.waits() || !one.second.flow.empty(); });
}

std::vector<ZmqPeers::Lost> ZmqPeers::take_lost() { return std::exchange(lost_, {}); }

}  // namespace thinwire
