// One attempt at one hub: a DEALER socket that connects once and never again by itself, with a
// monitor that tells how it fares. One thread. Internal to transports/.
#pragma once

#include <string>
#include <vector>
#include <zmq.hpp>

#include "thinwire/types.h"
#include "transports/zmq.h"

namespace thinwire {

struct DealerEvent {
  // strange: it ended in the handshake, as when one end uses keys and the other does not.
  // turned_away: the hub knows the key of this site and wants none of it, or does not know it.
  enum class What { connected, lost, strange, turned_away };
  What what;
  std::string why;
};

class Dealer {
 public:
  Dealer(zmq::context_t& context, const ZmqLinkOptions& options, const std::string& address);
  ~Dealer();  // drops what is not sent
  Dealer(const Dealer&) = delete;
  Dealer& operator=(const Dealer&) = delete;

  zmq::socket_t& socket() { return socket_; }
  zmq::socket_t& monitor() { return monitor_; }
  std::vector<DealerEvent> take_events();

 private:
  void judge(int event, int value, std::vector<DealerEvent>& events);

  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  bool shaken_ = false;  // hands
};

}  // namespace thinwire
