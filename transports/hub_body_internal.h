// The inside of hub::Core, in seven files: hub_core.cc (dispatch, time), hub_beginning.cc (how a
// run begins or goes on), hub_members.cc (who is in), hub_takeover.cc (who takes the state over),
// hub_rounds.cc (posts and closing), hub_recovery.cc (rounds that an earlier hub closed), and
// hub_status.cc. One thread. Internal to transports/.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transports/hub_core_internal.h"
#include "transports/hub_records_internal.h"

namespace thinwire::hub {

class Core::Body {
 public:
  explicit Body(CoreOptions options) : options_(std::move(options)) {}

  std::vector<Out> receive(double now, const Peer& peer, const std::string& key, Message message);
  void alive(double now, const Peer& peer);
  void gone(double now, const Peer& peer);
  std::vector<Out> tick(double now);
  double next_tick() const;
  void refuse(const std::string& reason);
  std::string status_json(double now) const;
  std::string metrics_text() const;

  std::vector<std::string> log_;

 private:
  // hub_core.cc
  void forgive_own_stall(double now);
  std::vector<Out> settle();
  void from_stranger(const Peer& peer, const Message& message);
  void from_site(Site& site, Message message);
  std::uint64_t token() const;
  double from_token(std::uint64_t token) const;
  void send(const Peer& to, Message message);
  void send(Site& to, Message message);
  void log(const std::string& line);
  // Counts, and logs the first ones of each reason.
  void refuse(const std::string& reason, const std::string& line);
  std::string address(const Peer& peer) const;

  // hub_members.cc
  void hello(const Peer& peer, const std::string& key, Hello hello);
  bool been_elsewhere(const Hello& hello) const;
  void begin_anew();
  void hello_again(Site& site, const Peer& peer, const std::string& key, const Hello& hello);
  void other_process(Site& site, const Peer& peer, const std::string& key, const Hello& hello);
  void first_hello(const Peer& peer, const std::string& key, const Hello& hello);
  void late_hello(const Peer& peer, const std::string& key, const Hello& hello);
  Site& accept(const Peer& peer, const std::string& key, const Hello& hello);
  void turn_away(const Peer& peer, const Hello& hello, const std::string& reason, Refused refused);
  void move_to(Site& site, const Peer& peer);
  void try_to_begin();
  void begin();
  void give_numbers();
  // If its replica is of no use to the run, the site takes the run's state over first.
  void admit(Site& site);
  std::string useless(const Site& site) const;  // why, or nothing
  void welcome(Site& site);
  void await_if_near(Site& site);
  void go_on(bool stood_still);
  void leave(Site& site, const std::string& why);
  void forget(const std::string& name);
  Site** free_place();
  bool number_fits(const Peer& peer, const Hello& hello);
  void give_place(Site& site, std::uint32_t number);
  void check_liveness();
  double evidence_at() const;
  std::size_t awaited_sites() const;
  bool enough() const;  // sites, for a round to be closed
  std::uint64_t first_open() const;

  // hub_rounds.cc
  void post(Site& site, Post post);
  bool acceptable(const Site& site, const Post& post);
  bool room_for(const Key& key, std::size_t bytes);
  void note_pace(const Key& key);
  void want(Site& site, const Slot& slot);
  void close_ready();
  bool complete(const OpenRound& round) const;
  double allowance() const;
  double deadline(const OpenRound& round) const { return round.first + allowance(); }
  std::vector<bool> take_part(const Key& key, OpenRound& round);
  void close(const Key& key, bool by_deadline);
  void keep(const Key& key, ClosedRound round);
  void send_closed(Site& to, const Key& key, std::uint32_t part);
  bool drop_oldest();  // of the closed rounds; false: those left are needed
  void drop_old();
  void release(const OpenRound& round);

  // hub_takeover.cc
  bool start_takeover(Site& site, const std::string& why);
  bool choose_state(Site& site);
  void take_over(Site& site, const std::string& why);  // of a site that is in the run
  void arrived(Site& site);
  void fetch_state(Site& site, Fetch fetch);
  void chunk(Site& from, Chunk chunk);
  void no_state(Site& from, std::uint64_t step);
  void drop_words(const Site& site);
  std::uint64_t position(const Site& site) const;
  std::uint64_t needed_from() const;  // rounds below are needed by no site on its way in

  // hub_recovery.cc
  bool held(const Key& key) const;  // closed by an earlier hub, says a site that is here
  bool conflicts(const Claims& claims) const;
  void choose_history();
  void learn(const Key& key, std::uint64_t hash);
  void fetch(const Key& key);
  bool ask(const Key& key, Retrieval& fetch);  // false: nobody is left who has it
  void lacks(Site& site, const Key& key);
  void give_up(const Key& key);
  void ask_again();
  void bundle(Site& from, Bundle bundle);
  bool sound(const Bundle& bundle) const;
  std::string unlike(const Key& key, const Bundle& bundle) const;
  void close_fetched(const Key& key);

  const CoreOptions options_;
  std::uint64_t id_ = options_.hub;  // another one after begin_anew
  double now_ = 0.0;
  double due_ = kNever;        // when tick was to be called next
  double enough_at_ = kNever;  // since when as many sites are there as the run needs to begin
  std::size_t donor_turn_ = 0;
  std::vector<Out> out_;

  std::map<std::string, Site> sites_;  // by name; nodes do not move
  std::vector<Site*> numbered_;        // nullptr: not heard of since this hub began
  std::map<Peer, Site*> peers_;
  bool begun_ = false;
  std::uint32_t epoch_ = 0;
  std::optional<Hello> common_;  // run, agreement, agreed and parts of the first hello

  std::map<Key, OpenRound> open_;
  std::map<Key, ClosedRound> closed_;
  std::map<Key, Retrieval> fetches_;
  std::uint64_t began_at_ = 0;            // rounds below are known from hellos alone
  std::uint64_t head_ = 0;                // rounds below are closed, or were thought so
  std::uint64_t kept_from_ = 0;           // rounds below are forgotten
  std::map<Key, std::uint64_t> history_;  // hashes of the results of the last rounds
  std::size_t bytes_open_ = 0;
  std::size_t bytes_closed_ = 0;
  std::size_t bytes_fetched_ = 0;
  std::deque<double> durations_;            // of the last complete rounds
  std::deque<double> paces_;                // from the first post of one round to that of the next
  std::optional<std::uint64_t> spoken_of_;  // the highest round of which there was a post,
  double spoken_at_ = 0.0;                  // and when the first one came
  double closed_at_ = 0.0;                  // when a round was last closed

  std::uint64_t rounds_closed_ = 0;
  std::uint64_t closed_by_deadline_ = 0;
  std::map<std::string, std::uint64_t> refused_;
};

}  // namespace thinwire::hub
