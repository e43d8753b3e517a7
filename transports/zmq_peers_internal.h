// The connections of the hub's ROUTER socket: their names, and what is on its way to and from each
// of them.
//
// ZeroMQ bounds a queue by messages. Here bytes are bounded: a peer has some inside ZeroMQ (Flow)
// and at most queue_bytes waiting behind. One that takes no more is forgotten with all that waited
// for it; nobody else notices.
//
// One thread, that of the socket. Internal to transports/.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "thinwire/types.h"
#include "transports/zmq_flow_internal.h"
#include "transports/zmq_pieces_internal.h"

namespace thinwire {

struct ZmqPeersOptions {
  int wake_descriptor = -1;  // an eventfd, written when a peer takes more again; see Flow
  std::size_t queue_bytes = 0;
  std::size_t message_bytes = 0;  // of the longest that may come
};

class ZmqPeers {
 public:
  // urgent: overtakes what is in order; both keep their order among themselves.
  enum class Haste { urgent, in_order };

  ZmqPeers(zmq::socket_t& router, ZmqPeersOptions options);

  // The peer behind a routing id, "10.0.0.7#3": the address it came from and a number of its own.
  const std::string& name_of(const zmq::message_t& routing_id, const char* address);

  // It has said hello: probe() asks after it.
  void greeted(const std::string& peer);
  // It is welcome: its pieces are kept. A stranger's messages are short.
  void welcomed(const std::string& peer);
  // The message that this piece completes, nothing when more must come, or why it is refused.
  Result<std::optional<hub::GrowingBytes>> join(const std::string& peer, ByteView piece);

  // Sends now or later. A peer that is not known is gone: nothing happens.
  void send(const std::string& peer, hub::Encoded message, Haste haste);
  void send_waiting();
  bool idle() const;  // nothing is on its way to a peer that takes it
  // Sends these bytes to all who said hello: those whose connection has ended are then lost.
  void probe(const Bytes& bytes);

  struct Lost {
    std::string peer;
    std::string why;  // empty: its connection has ended
  };
  std::vector<Lost> take_lost();  // since the last call

 private:
  struct Peer {
    std::string routing_id;
    Flow flow;
    hub::Joiner joiner;
    std::deque<hub::Encoded> urgent = {};
    std::deque<hub::Encoded> in_order = {};
    std::optional<hub::Cutter> cutter = {};  // of the first one in order
    std::size_t queue_bytes = 0;
    std::uint64_t last_heard = 0;  // order of arrivals
    bool greeted = false;
    bool welcomed = false;

    bool waits() const { return queue_bytes > 0; }
    bool waits_already(const hub::Encoded& message) const;
  };
  using Peers = std::map<std::string, Peer>;

  // False: the peer is gone.
  bool flush(Peer& peer);
  hub::SharedBytes next(Peer& peer);  // to go to the socket, of one for which something waits
  void lose(Peers::iterator peer, const std::string& why);
  void forget_the_longest_silent();

  zmq::socket_t& router_;
  const ZmqPeersOptions options_;
  Peers peers_;
  std::map<std::string, std::string> names_;  // by routing id
  std::uint64_t arrivals_ = 0;
  std::uint64_t numbered_ = 0;
  std::uint64_t cut_ = 0;  // messages
  std::vector<Lost> lost_;
};

}  // namespace thinwire
