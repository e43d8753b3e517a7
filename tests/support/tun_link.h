// A slow link of our own: two TUN devices, each in a network namespace, and a process between them
// that carries IP packets with a delay, a rate and losses. One thread runs it; set() and stop() may
// be called from any thread or a signal handler.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "transports/descriptor_internal.h"

namespace thinwire::test {

// One direction.
struct LinkOptions {
  double delay_ms = 0.0;  // one way
  double rate_mbit = std::numeric_limits<double>::infinity();
  double queue_ms = 200.0;  // of waiting for the rate; what would wait longer is dropped
  double loss = 0.0;        // part of the packets
  std::uint64_t seed = 1;   // of the losses
};

struct TunEnd {
  std::string space;    // network namespace: a path, or a name of `ip netns`
  std::string device;   // to be made there
  std::string address;  // IPv4, of this end
};

enum class Flow {
  pass,
  hold,  // packets wait: in the link, and behind it in the kernel's queue of 500, which then drops
  drop,  // packets vanish
};

class TunLink {
 public:
  // Makes both devices, up and with a route to each other; they go with this object. Throws Error.
  TunLink(const TunEnd& a, const TunEnd& b, const LinkOptions& a_to_b, const LinkOptions& b_to_a);

  void run();  // until stop()
  void stop() { stopping_ = true; }
  void set(Flow a_to_b, Flow b_to_a);

 private:
  struct Packet {
    double at;  // it arrives
    std::vector<char> bytes;
  };
  struct Way {
    LinkOptions options;
    int from = -1;
    int to = -1;
    std::mt19937_64 random;
    double line_free = 0.0;
    std::deque<Packet> packets = {};
  };

  Flow flow(int way) const { return flows_[way]; }
  void wait() const;
  void take(int way);
  void give(int way);

  Descriptor a_;
  Descriptor b_;
  std::array<Way, 2> ways_;
  std::array<std::atomic<Flow>, 2> flows_{Flow::pass, Flow::pass};
  std::atomic<bool> stopping_{false};
};

}  // namespace thinwire::test
