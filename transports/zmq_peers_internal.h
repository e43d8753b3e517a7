// The connections of the hub's ROUTER socket: their names, and what is on its way to each of them.
//
// ZeroMQ bounds a queue by messages, and a message may be hundreds of megabytes. Here bytes are
// bounded: a peer has at most kInFlight of them (or one message) inside ZeroMQ and at most
// queue_bytes waiting behind. One that takes no more is forgotten with all that waited for it;
// nobody else notices.
//
// One thread, that of the socket. Internal to transports/.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "thinwire/types.h"

namespace thinwire {

class ZmqPeers {
 public:
  // `wake_descriptor` is an eventfd, written when a peer takes more again; it outlives the context.
  ZmqPeers(zmq::socket_t& router, int wake_descriptor, std::size_t queue_bytes);

  // The peer behind a routing id, "10.0.0.7#3": the address it came from and a number of its own.
  const std::string& name_of(const zmq::message_t& routing_id, const char* address);

  // Sends now or later. A peer that is not known is gone: nothing happens.
  void send(const std::string& peer, Bytes bytes);
  void send_waiting();
  bool idle() const;  // nothing is on its way to a peer that takes it

  struct Lost {
    std::string peer;
    std::string why;
  };
  std::vector<Lost> take_lost();  // since the last call

 private:
  // Shared with the I/O thread, which gives back buffers when they are sent.
  struct Flow {
    std::atomic<std::size_t> in_flight{0};  // bytes inside ZeroMQ
    std::atomic<bool> waiting{false};       // wake the hub when some of them have left
    int wake_descriptor = -1;
  };
  struct Peer {
    std::string routing_id;
    std::shared_ptr<Flow> flow;
    std::deque<Bytes> queue = {};
    std::size_t queue_bytes = 0;
    std::uint64_t last_heard = 0;  // order of arrivals
  };
  struct Parcel {
    Bytes bytes;
    std::shared_ptr<Flow> flow;
  };
  using Peers = std::map<std::string, Peer>;

  static void give_back(void* data, void* hint);
  static zmq::message_t wrap(Bytes bytes, const std::shared_ptr<Flow>& flow);
  // False: the peer is gone.
  bool flush(Peer& peer);
  void lose(Peers::iterator peer, const std::string& why);
  void forget_the_longest_silent();

  zmq::socket_t& router_;
  const int wake_descriptor_;
  const std::size_t queue_bytes_;
  Peers peers_;
  std::map<std::string, std::string> names_;  // by routing id
  std::uint64_t arrivals_ = 0;
  std::uint64_t numbered_ = 0;
  std::vector<Lost> lost_;
};

}  // namespace thinwire
