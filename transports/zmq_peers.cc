#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transports/zmq_address_internal.h"
#include "transports/zmq_peers_internal.h"

namespace thinwire {
namespace {

constexpr std::size_t kInFlight = 8u << 20;  // bytes; 0.6 s of a 100 Mbit/s link
constexpr std::size_t kPeersMax = 4096;

}  // namespace

ZmqPeers::ZmqPeers(zmq::socket_t& router, int wake_descriptor, std::size_t queue_bytes)
    : router_(router), wake_descriptor_(wake_descriptor), queue_bytes_(queue_bytes) {}

const std::string& ZmqPeers::name_of(const zmq::message_t& routing_id, const char* address) {
  const std::string id = routing_id.to_string();
  auto known = names_.find(id);
  if (known == names_.end()) {
    if (peers_.size() >= kPeersMax) forget_the_longest_silent();
    const std::string name =
        (address == nullptr ? "unknown" : plain_ip(address)) + "#" + std::to_string(++numbered_);
    known = names_.emplace(id, name).first;
    auto flow = std::make_shared<Flow>();
    flow->wake_descriptor = wake_descriptor_;
    peers_.emplace(name, Peer{.routing_id = id, .flow = std::move(flow)});
  }
  peers_.at(known->second).last_heard = ++arrivals_;
  return known->second;
}

void ZmqPeers::send(const std::string& name, Bytes bytes) {
  const auto peer = peers_.find(name);
  if (peer == peers_.end()) return;
  Peer& to = peer->second;
  // One message of any size may wait.
  if (!to.queue.empty() && to.queue_bytes + bytes.size() > queue_bytes_) {
    lose(peer, "takes nothing, " + std::to_string(to.queue_bytes >> 20) + " MiB wait for it");
    return;
  }
  to.queue_bytes += bytes.size();
  to.queue.push_back(std::move(bytes));
  if (!flush(to)) lose(peer, "");
}

void ZmqPeers::send_waiting() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    const auto next = std::next(peer);
    if (!peer->second.queue.empty() && !flush(peer->second)) lose(peer, "");
    peer = next;
  }
}

bool ZmqPeers::flush(Peer& peer) {
  while (!peer.queue.empty()) {
    // Before in_flight is looked at, so that the I/O thread sees it when it makes room after that.
    peer.flow->waiting = true;
    if (peer.flow->in_flight >= kInFlight) return true;
    try {
      const auto sent = router_.send(zmq::buffer(peer.routing_id),
                                     zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      if (!sent) return true;  // ZeroMQ's own bound in messages
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR) continue;
      if (error.num() == EHOSTUNREACH) return false;
      throw;
    }
    Bytes bytes = std::move(peer.queue.front());
    peer.queue.pop_front();
    peer.queue_bytes -= bytes.size();
    router_.send(wrap(std::move(bytes), peer.flow), zmq::send_flags::dontwait);
  }
  peer.flow->waiting = false;
  return true;
}

zmq::message_t ZmqPeers::wrap(Bytes bytes, const std::shared_ptr<Flow>& flow) {
  auto parcel = std::make_unique<Parcel>(Parcel{std::move(bytes), flow});
  flow->in_flight += parcel->bytes.size();
  zmq::message_t message(parcel->bytes.data(), parcel->bytes.size(), give_back, parcel.get());
  static_cast<void>(parcel.release());  // give_back owns it now
  return message;
}

void ZmqPeers::give_back(void*, void* hint) {
  const std::unique_ptr<Parcel> parcel(static_cast<Parcel*>(hint));
  parcel->flow->in_flight -= parcel->bytes.size();
  if (!parcel->flow->waiting) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(parcel->flow->wake_descriptor, &one, sizeof one));
}

void ZmqPeers::lose(Peers::iterator peer, const std::string& why) {
  if (!why.empty()) lost_.push_back({peer->first, why});
  peer->second.flow->waiting = false;
  names_.erase(peer->second.routing_id);
  peers_.erase(peer);
}

void ZmqPeers::forget_the_longest_silent() {
  lose(std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.last_heard; }),
       "");
}

bool ZmqPeers::idle() const {
  const auto busy = [](const auto& one) {
    return !one.second.queue.empty() || one.second.flow->in_flight > 0;
  };
  return std::ranges::none_of(peers_, busy);
}

std::vector<ZmqPeers::Lost> ZmqPeers::take_lost() { return std::exchange(lost_, {}); }

}  // namespace thinwire
