// One site's conversation with its hubs, without sockets or clocks of its own: which hub to dial
// when, when to say hello, what to send again, when to give up. Deterministic, so that tests play
// it against hub::Core over a network of their own. The caller guards it. Internal to transports/.
//
// The link asks plan() which connection it should have. A connection is one attempt at one hub: it
// ends at its first trouble, and the next one has another id; so nothing is ever queued in a
// connection that comes back without the site knowing.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "transports/hub_messages_internal.h"
#include "transports/zmq_rounds_internal.h"

namespace thinwire::hub {

struct SiteOptions {
  std::string run = "run";
  std::string site = {};
  std::uint64_t process = 1;  // random at start
  std::uint64_t agreement = 0;
  std::string agreed = {};
  std::uint32_t parts = 1;
  std::vector<std::string> hubs = {};  // addresses, in the order to be tried
  double connect_timeout_s = 30.0;     // until the first welcome
  double peer_timeout_s = 10.0;        // silence after which a hub is taken for dead
  double hub_timeout_s = 120.0;        // without any hub: give up
  std::size_t rounds_kept = 64;
};

class Site {
 public:
  struct Plan {
    std::uint64_t connection = 0;  // 0: none
    std::size_t hub = 0;           // index into hubs
  };
  struct Failure {
    std::string why;
    bool hub_lost = false;
  };

  Site(SiteOptions options, double now);

  SiteRounds& rounds() { return rounds_; }
  const SiteRounds& rounds() const { return rounds_; }

  // To be called at next_tick() or later, and after every other call below.
  void tick(double now);
  double next_tick() const;
  Plan plan() const { return {link_ == Link::none ? 0 : connection_, hub_}; }
  void connected();
  // The connection ended. `strange`: not even the handshake was possible.
  void lost(const std::string& why, bool strange = false);
  // The hub does not let this site in, for ever.
  void turned_away(const std::string& why);
  void receive(Message message, std::size_t bytes);
  void alive() { heard_at_ = now_; }  // a piece of a message that is not whole yet
  // The next message to be sent, encoded. Those of at most kPieceBytes that are not about rounds
  // may go in between the pieces of a long one.
  enum class Length { any, in_between };
  std::optional<Bytes> next_out(Length length = Length::any);
  // The last long message has left: its answer is awaited from now on.
  void said() { rounds_.said(now_); }
  void leave();  // a goodbye follows, then nothing more

  bool begun() const { return number_ != kNoNumber; }
  int site() const { return static_cast<int>(number_); }
  int sites() const { return static_cast<int>(sites_); }
  const std::optional<Failure>& failure() const { return failure_; }
  std::vector<std::string> take_log();

 private:
  enum class Link { none, dialling, greeting, member };

  void dial();
  void heard(const Message& message);
  void give(const Bundle& bundle);
  void on(const Welcome& welcome);
  void on(const Refused& refused);
  void give_up_if_due();
  void fail(std::string why, bool hub_lost);
  Hello hello() const;
  const std::string& address() const { return options_.hubs[hub_]; }

  const SiteOptions options_;
  SiteRounds rounds_;
  double now_;
  Link link_ = Link::none;
  std::uint64_t connection_ = 0;
  std::size_t hub_ = 0;
  double since_;     // of the state of the link
  double heard_at_;  // in this connection
  double dial_at_;
  double pause_s_ = 0.0;  // before the next attempt
  double hello_at_;
  double ping_at_;
  // Seconds without a hub that this process was awake: a frozen one has lost nothing.
  double alone_s_ = 0.0;
  int strange_ = 0;       // attempts in a row that ended in the handshake
  bool greeted_ = false;  // a hub was there, whether or not the run had begun
  std::string trouble_;   // the last one
  std::deque<Bytes> control_;
  bool leaving_ = false;

  std::uint32_t number_ = kNoNumber;
  std::uint32_t sites_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint64_t hub_id_ = 0;
  std::optional<Failure> failure_;
  std::vector<std::string> log_;
};

}  // namespace thinwire::hub
