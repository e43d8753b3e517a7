// One attempt at one hub: a DEALER socket that connects once and never again by itself, with a
// monitor that tells how it fares. A host with several addresses is tried at one after the other,
// each as soon as the one before refuses. One thread. Internal to transports/.
#pragma once

#include <chrono>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "thinwire/types.h"
#include "transports/zmq.h"
#include "transports/zmq_names_internal.h"

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
  void connect_next();
  void look(std::vector<DealerEvent>& events);
  void judge(int event, int value, std::vector<DealerEvent>& events);

  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  Lookup lookup_;
  const std::chrono::steady_clock::time_point lookup_end_;
  std::size_t tried_ = 0;  // addresses of the host
  bool shaken_ = false;    // hands
};

}  // namespace thinwire
