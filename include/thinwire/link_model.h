// A network link on a virtual clock: how long a transfer would take, computed, never slept. One
// object is one direction; transfers queue behind each other. Deterministic for a seed. One thread.
//
// A transfer of n bytes leaves in packets of kPacketBytes at `rate`; each packet is lost with
// probability `loss`; what was lost is sent again one round trip after the last packet left, until
// none is lost; the last packet arrives `delay` plus a uniform share of `jitter` after it left, but
// never before an earlier transfer. While a sender waits to repeat, the next transfer already
// leaves.
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

  void validate() const;  // throws UsageError
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
  double uniform();                // [0, 1)
  double lost_of(double packets);  // a binomial draw

  LinkOptions options_;
  std::uint64_t state_;
  double free_at_ = 0.0;  // when the sender's queue is empty
  double last_arrival_ = 0.0;
};

// What one site computes and says in a step.
struct StepTraffic {
  double compute_s = 0.0;
  double bytes_up = 0.0;    // sent by one site in a step
  double bytes_down = 0.0;  // received by one site in a step
  int sites = 1;
  int delay = 0;      // steps between saying and hearing; star only
  bool ring = false;  // neighbours pass chunks on; otherwise every site talks to one hub
};

// Mean seconds of a step once the pipeline is full, over at least `steps` steps. All sites compute
// for the same time and every direction of every site's link is a LinkModel of its own.
//   star  every site uploads to the hub; the hub closes the round when all have arrived and every
//   site
//         downloads. A step ends when its computation is done and the round of `delay` steps ago is
//         heard (delay 0: its own round, so nothing overlaps).
//   ring  2 (sites - 1) phases; in each a site sends an equal part of bytes_up to its neighbour and
//         goes on when it has heard from the other one. Nothing overlaps; bytes_down is not used.
// One site alone, or sites that send nothing, only compute.
double modelled_step_s(const StepTraffic& traffic, const LinkOptions& link, std::uint64_t seed,
                       int steps = 50);

}  // namespace thinwire
