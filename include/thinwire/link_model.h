// A network link on a virtual clock: how long a transfer would take, computed, never slept. One object
// is one direction; transfers queue behind each other. Deterministic for a seed. One thread.
//
// A transfer of n bytes leaves in packets of kPacketBytes at `rate`; each packet is lost with
// probability `loss` and is sent again one round trip later, until none is lost; the last packet
// arrives `delay` plus a uniform share of `jitter` after it left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire {

inline constexpr double kPacketBytes = 1448.0;  // TCP payload of an Ethernet frame

struct LinkOptions {
  double rate = 100e6 / 8;  // bytes a second, > 0
  double delay = 0.025;     // seconds one way, >= 0
  double loss = 0.0;        // share of packets, 0 .. 0.5
  double jitter = 0.0;      // seconds, >= 0

  void validate() const;    // throws UsageError
  bool operator==(const LinkOptions&) const = default;
};

// "100mbit,50ms" or "100mbit,50ms,0.1%" or "...,0.1%,5ms": rate, round trip, loss, jitter. Rates in
// kbit, mbit, gbit. Throws UsageError showing the form.
LinkOptions parse_link(std::string_view text);
std::string to_string(const LinkOptions& options);

class LinkModel {
 public:
  LinkModel(LinkOptions options, std::uint64_t seed);

  // The time at which the last byte of a transfer handed over at `now` has arrived. Seconds.
  double arrival(double now, double bytes);
  double free_at() const { return free_at_; }

 private:
  double uniform();

  LinkOptions options_;
  std::uint64_t state_;
  double free_at_ = 0.0;  // when the sender's queue is empty
};

}  // namespace thinwire
