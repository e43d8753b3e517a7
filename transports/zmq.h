// The far link across the internet: sites dial a hub over TCP (ZeroMQ), CURVE-encrypted unless both
// ends are on the loopback interface. Sites may sit behind NAT; only the hub listens.
//
// Thread rule: exchange(r) and collective(r) belong to the thread that plays rank r; the link
// itself may be used from any thread and must outlive them. One I/O thread owns the sockets; what
// goes wrong in it is thrown by the next post or collect.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/error.h"
#include "thinwire/exchange.h"
#include "thinwire/state_link.h"

namespace thinwire {

// A CURVE key pair in Z85, 40 characters each.
struct ZmqKeys {
  std::string public_key;
  std::string secret_key;
};

struct ZmqLinkOptions {
  std::vector<std::string> hubs = {};  // tcp://host:port, in the order to be tried
  std::string hub_key = {};  // the hub's public key; may be empty for loopback addresses alone
  ZmqKeys keys = {};         // of this site
  std::string run = "run";
  std::string site = {};  // name, unique in the run
  int ranks = 1;
  std::chrono::milliseconds connect_timeout{30'000};  // until the first welcome
  std::chrono::milliseconds peer_timeout{10'000};  // silence after which the hub is taken for dead
  std::chrono::milliseconds hub_timeout{120'000};  // without any hub: give up
  bool gives_state = true;  // to sites that come late; false: nobody calls at_step
  // A run that goes on from a saved state: the results of the rounds before this one are in it.
  std::uint64_t first_round = 0;
  std::vector<Bytes> rounds = {};  // by rank: save_rounds of the process before
  // Once set every wait, in the constructor as in the ranks, throws Interrupted within a second.
  const std::atomic<bool>* stop = nullptr;
};

// The run cannot begin or go on without a hub: nothing of the training is lost. Exit code 4.
struct HubLost : Error {
  using Error::Error;
};

class ZmqLink {
 public:
  // Says hello and waits until the run begins: every site is there. `agreement` and `agreed` are
  // what all sites must share (Trainer::agreement; "key = value" lines, to name the first
  // difference). Throws Error naming what differs, who refused, or that no hub answered.
  ZmqLink(ZmqLinkOptions options, std::uint64_t agreement, std::string agreed);
  ~ZmqLink();  // says goodbye; at most 2 s

  int site() const;
  int sites() const;
  Exchange& exchange(int rank);
  // all_reduce_mean alone: the mean is taken at the hub. Its rounds are numbered by its calls.
  Collective& collective(int rank);
  // Results of the last closed rounds, from `from` on: with them a site that is started again can
  // help those that lack them.
  Bytes save_rounds(int rank, std::uint64_t from) const;
  StateLink& states(int rank);  // for a site that enters late, and for those that have the state

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

struct ZmqHubOptions {
  std::string listen = "tcp://127.0.0.1:5555";
  ZmqKeys keys = {};                      // may be empty on loopback addresses alone
  std::vector<std::string> allowed = {};  // public keys of sites
  std::string run = "run";
  int sites = 2;      // places: so many can be in the run at once
  int min_sites = 0;  // with fewer it stands still; 0: it begins with all and goes on with any
  std::chrono::milliseconds peer_timeout{10'000};
  std::chrono::milliseconds round_deadline{60'000};
  std::size_t frame_bytes_max = std::size_t{256} << 20;
  std::string metrics = {};  // address of the Prometheus endpoint, empty: none
};

class ZmqHub {
 public:
  // Binds; throws Error naming address and port when it cannot, UsageError for settings that
  // contradict each other (no keys on an address that others can reach).
  explicit ZmqHub(ZmqHubOptions options);
  ~ZmqHub();

  void run();                           // until stop()
  void stop();                          // from any thread or a signal handler
  std::string address() const;          // with the port that was bound
  std::string metrics_address() const;  // likewise; empty without an endpoint

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

ZmqKeys make_zmq_keys();

}  // namespace thinwire
