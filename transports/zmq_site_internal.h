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
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/state_link.h"
#include "transports/hub_messages_internal.h"
#include "transports/zmq_rounds_internal.h"
#include "transports/zmq_state_internal.h"

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
  std::uint64_t first_round = 0;       // see ZmqLinkOptions
  bool gives_state = true;             // likewise
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
  SiteState& state() { return state_; }
  const SiteState& state() const { return state_; }

  // The rounds that are here are of no use any more: no rank gets another result until the run's
  // state is taken over.
  bool outdated() const { return !outdated_.empty(); }
  const std::string& why_outdated() const { return outdated_; }
  bool entered_late() const { return entered_late_; }
  void give_up_replica(const std::string& why);
  // By part, once state().complete(). The rounds begin `in_flight` before its step.
  std::vector<RunState> resume(std::uint64_t in_flight);

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
  // A piece of a message that is not whole yet.
  void alive() {
    heard_at_ = now_;
    rounds_.hearing(now_);
  }
  // The next message to be sent, encoded. Those of at most kPieceBytes that are not about rounds
  // may go in between the pieces of a long one.
  enum class Length { any, in_between };
  std::optional<Encoded> next_out(Length length = Length::any);
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
  void give(Bytes bytes);
  void on(const Welcome& welcome);
  void on(const Refused& refused);
  void on(const Pong& pong);
  bool on_state(const Message& message);
  void show_progress();
  void give_up_if_due();
  void fail(std::string why, bool hub_lost);
  Hello hello() const;
  double ping_each() const;
  const std::string& address() const { return options_.hubs[hub_]; }

  const SiteOptions options_;
  SiteRounds rounds_;
  SiteState state_;
  std::string outdated_;           // why
  bool entered_late_ = false;      // the first welcome was to a run under way
  std::uint64_t taken_ = kNoStep;  // the step of the last state taken over
  double outdated_at_ = 0.0;
  double shown_ = 0.0;      // progress of a takeover
  std::uint64_t open_ = 0;  // by the last welcome
  const double born_;
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
  double pinged_at_ = 0.0;
  std::uint64_t pinged_ = 0;  // the step that the last ping told
  std::uint64_t echo_ = 0;
  bool awaited_ = false;  // by the hub, as it said last
  // Until then this site is promised to the hub at that address, of several.
  std::optional<std::size_t> promised_to_;
  double promised_until_ = 0.0;
  double lease_s_ = 0.0;
  double member_at_ = 0.0;
  double refused_since_ = 0.0;                                    // without end
  double refused_at_ = -std::numeric_limits<double>::infinity();  // last
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
