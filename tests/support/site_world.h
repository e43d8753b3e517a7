// Sites against the hub's judgement over a network of the test's own: messages take time,
// connections break, hubs die and begin anew, sites freeze; all in virtual time and without a
// socket.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "thinwire/hash.h"
#include "transports/hub_core_internal.h"
#include "transports/zmq_site_internal.h"

namespace thinwire::hub {

inline constexpr double kStep = 0.01;  // of the virtual clock, s

inline Bytes frame_of(int site, std::uint32_t part, std::uint64_t number) {
  const std::string text =
      std::to_string(site) + "." + std::to_string(part) + "." + std::to_string(number);
  Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return bytes;
}

struct WorldOptions {
  int sites = 3;
  std::uint32_t parts = 2;
  std::uint64_t rounds = 40;
  std::uint64_t delay = 0;  // rounds in flight
  std::uint64_t seed = 1;
  int hubs = 1;
  double peer_timeout_s = 1.0;
  int min_sites = 0;
  std::size_t rounds_kept = 64;       // by the hub
  std::size_t state_bytes = 150'000;  // of a part
  std::uint64_t words = 0;            // each so many steps a repair's two phases; 0: never
};

// One site, its ranks in step, and its end of a connection.
struct Player {
  std::unique_ptr<Site> site;
  std::uint64_t connection = 0;
  std::uint64_t posted = 0;  // rounds
  std::uint64_t collected = 0;
  bool frozen = false;  // the whole process
  bool dead = false;
  int takeovers = 0;
  std::uint32_t phase = 0;  // of the words of the step that it is in; 0: none is open
  std::map<std::uint64_t, bool> said;
  std::map<std::uint64_t, std::vector<SharedResult>> heard;  // by round; by part
  std::vector<std::uint64_t> replica;  // by part: a hash of all that was heard
};

inline std::uint64_t replica_after(std::uint64_t replica, const SharedResult& result) {
  for (const SharedFrame& frame : result.frames) {
    replica = hash_fold(replica, static_cast<std::uint64_t>(frame.site));
    replica = hash_fold(replica, hash64(ByteView(frame.bytes)));
  }
  for (int absent : result.absent) replica = hash_fold(replica, static_cast<std::uint64_t>(absent));
  return replica;
}

// As long as is asked for, and a function of the replica.
inline Bytes state_of(std::uint64_t replica, std::size_t bytes) {
  Bytes state(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    state[i] = static_cast<std::byte>(i < 8 ? replica >> (8 * i) : test::mix(replica + i / 4096));
  }
  return state;
}

inline std::uint64_t replica_in(const Bytes& state) {
  std::uint64_t replica = 0;
  for (std::size_t i = 0; i < 8; ++i) replica |= static_cast<std::uint64_t>(state[i]) << (8 * i);
  return replica;
}

class World {
 public:
  ~World() {
    if (testing::Test::HasFailure()) show();
  }
  explicit World(WorldOptions options) : options_(options), hubs_(options.hubs) {
    for (auto& hub : hubs_) hub = new_hub();
    players_.resize(options.sites);
    for (int i = 0; i < options.sites; ++i) start_site(i);
  }

  Player& player(int i) { return players_[i]; }
  double now() const { return now_; }
  std::uint64_t chance(std::uint64_t below) {
    return test::mix(options_.seed * 7919 + ++drawn_) % below;
  }

  void kill_hub(int hub) {
    hubs_[hub].reset();
    note("hub killed");
    for (int i = 0; i < options_.sites; ++i) {
      if (players_[i].connection != 0 && hub_of_[i] == hub && reaches(i, hub)) break_connection(i);
    }
  }
  // Whatever goes between the two is lost, and nobody is told.
  void cut(int site, int hub, bool apart = true) { apart_[{site, hub}] = apart; }
  bool reaches(int site, int hub) const {
    const auto found = apart_.find({site, hub});
    return found == apart_.end() || !found->second;
  }
  void start_hub(int hub) { hubs_[hub] = new_hub(); }
  // A new process, under the name of the one that was here.
  void start_site(int i) {
    SiteOptions site;
    site.site = std::string("site-") + static_cast<char>('a' + i);
    site.process = ++processes_;
    site.parts = options_.parts;
    site.peer_timeout_s = options_.peer_timeout_s;
    site.connect_timeout_s = 100.0;
    for (int hub = 0; hub < options_.hubs; ++hub) site.hubs.push_back(std::to_string(hub));
    players_[i] = {};
    players_[i].site = std::make_unique<Site>(site, now_);
    players_[i].replica.assign(options_.parts, 1);
    base_[i] += 100'000;
    broken_while_frozen_[i] = false;
  }
  // SIGKILL: the kernel closes the connection, and the hub may see it.
  void kill_site(int i) {
    Player& player = players_[i];
    Core* hub = hubs_[hub_of_[i]].get();
    if (hub && player.connection != 0 && chance(2) == 0)
      hub->gone(now_, peer(i, player.connection));
    ++deaths_;
    player.dead = true;
    player.connection = 0;
    note("site " + std::to_string(i) + " killed");
  }
  // Everything on its way is lost; the site is told, the hub is not.
  void break_connection(int i) {
    players_[i].connection = 0;
    if (players_[i].frozen) {
      broken_while_frozen_[i] = true;
    } else {
      players_[i].site->lost("the connection was closed");
    }
  }

  void step() {
    now_ += kStep;
    deliver();
    for (auto& hub : hubs_) {
      if (hub && now_ >= hub->next_tick()) send(*hub, hub->tick(now_));
      if (!hub) continue;
      for (const std::string& line : hub->take_log()) note("hub: " + line);
    }
    for (int i = 0; i < options_.sites; ++i) {
      if (!players_[i].frozen && !players_[i].dead) play(i);
    }
  }

  // Sites that have the run's state and can give it; with the last one it is lost.
  int holders() const {
    std::uint64_t most = 0;
    for (const Player& one : players_) most = std::max(most, one.collected);
    return static_cast<int>(std::count_if(players_.begin(), players_.end(), [&](const Player& one) {
      const bool near = one.collected + 8 > most;
      return near && !one.dead && !one.frozen && one.site->begun() && !one.site->outdated();
    }));
  }
  std::string status() const { return hubs_[0]->status_json(now_); }
  bool done() const {
    return std::all_of(players_.begin(), players_.end(), [&](const Player& one) {
      return one.collected == options_.rounds || one.dead;
    });
  }
  // Until all have all rounds, or that much time has passed.
  void run(double most_s) {
    for (const double end = now_ + most_s; now_ < end && !done() && !testing::Test::HasFailure();)
      step();
    EXPECT_TRUE(done()) << "stuck at " << now_ << " s, seed " << options_.seed;
  }

  // All that live end with the same replica; whoever heard a round heard the same, and nobody is
  // heard with a frame that it did not post.
  void expect_one_history(bool whole) {
    if (testing::Test::HasFailure()) return;
    const Player* first = nullptr;
    for (int i = 0; i < options_.sites; ++i) {
      const Player& player = players_[i];
      if (player.dead) continue;
      if (!first) first = &player;
      EXPECT_EQ(player.replica, first->replica) << "site " << i;
      for (const auto& [round, results] : player.heard) {
        for (std::uint32_t part = 0; part < options_.parts; ++part) {
          const auto key = std::pair(round, part);
          const auto [known, fresh] = history_.emplace(key, results[part]);
          EXPECT_EQ(results[part].absent, known->second.absent)
              << "site " << i << ", round " << round;
          ASSERT_EQ(results[part].frames.size(), known->second.frames.size())
              << "site " << i << ", round " << round;
          check_frames(results[part], part, round);
          EXPECT_TRUE(!whole || results[part].absent.empty()) << "round " << round;
        }
        const auto said = player.said.find(round);
        const auto& absent = results[0].absent;
        const bool included = std::find(absent.begin(), absent.end(), i) == absent.end();
        // After a death another process may have used the number.
        const bool other = deaths_ > 0 || player.takeovers > 0;
        EXPECT_TRUE(other || !included || said->second) << "site " << i;
      }
    }
  }
  // Of a run that is not over: what was heard is compared, replicas are not yet equal.
  void expect_one_history_so_far() {
    std::vector<std::vector<std::uint64_t>> replicas;
    for (Player& player : players_)
      replicas.push_back(std::exchange(player.replica, std::vector<std::uint64_t>(options_.parts)));
    expect_one_history(false);
    for (Player& player : players_) player.replica = replicas[&player - players_.data()];
  }
  void check_frames(const SharedResult& result, std::uint32_t part, std::uint64_t round) const {
    EXPECT_EQ(result.frames.size() + result.absent.size(),
              static_cast<std::size_t>(options_.sites));
    for (const SharedFrame& frame : result.frames) {
      EXPECT_EQ(frame.bytes, frame_of(frame.site, part, round));
    }
  }

  // What the hubs and sites logged, shown when a test fails.
  void show() const {
    for (const std::string& line : notes_) std::fprintf(stderr, "%s\n", line.c_str());
  }

 private:
  void note(const std::string& line) { notes_.push_back(std::to_string(now_) + " " + line); }

  struct Flight {
    double at;
    int site;
    std::uint64_t connection;
    bool up;
    Bytes bytes;
  };

  std::unique_ptr<Core> new_hub() {
    CoreOptions options;
    options.run = "run";
    options.hub = 1000 * ++hub_count_;
    options.sites = options_.sites;
    options.min_sites = options_.hubs > 1 ? options_.sites / 2 + 1 : options_.min_sites;
    options.rounds_kept = options_.rounds_kept;
    options.peer_timeout_s = options_.peer_timeout_s;
    options.round_deadline_s = options.shortest_s = 5.0;
    return std::make_unique<Core>(options);
  }

  std::uint64_t base_of(int i) const { return base_.at(i); }

  static Peer peer(int site, std::uint64_t connection) {
    return std::to_string(site) + "#" + std::to_string(connection);
  }

  // What was sent first arrives first.
  void fly(int site, bool up, Bytes bytes) {
    double& last = last_arrival_[{site, up}];
    last = std::max(last, now_ + 0.01 + 0.001 * static_cast<double>(chance(40)));
    flights_.push_back({last, site, players_[site].connection, up, std::move(bytes)});
  }

  void send(Core& hub, std::vector<Out> outs) {
    for (Out& out : outs) {
      const int site = out.to.front() - '0';
      const bool here = hubs_[hub_of_[site]].get() == &hub;
      if (here && out.to == peer(site, players_[site].connection)) {
        fly(site, false, encode(out.message));
      }
    }
  }

  void deliver() {
    std::vector<Flight> waiting = std::move(flights_);
    flights_.clear();
    for (Flight& flight : waiting) {
      Player& player = players_[flight.site];
      if (player.connection != flight.connection) continue;
      const int of_hub = hub_of_[flight.site];
      if (!reaches(flight.site, of_hub) || (flight.up && !hubs_[of_hub])) continue;
      if (flight.at > now_ || (!flight.up && player.frozen)) {
        flights_.push_back(std::move(flight));
        continue;
      }
      Result<Message> message = decode(flight.bytes);
      ASSERT_TRUE(message) << message.why();
      if (flight.up) {
        Core& hub = *hubs_[of_hub];
        send(hub, hub.receive(now_, peer(flight.site, flight.connection), "", std::move(*message)));
      } else {
        player.site->receive(std::move(*message), flight.bytes.size());
      }
    }
  }

  void play(int i) {
    Player& player = players_[i];
    Site& site = *player.site;
    site.tick(now_);
    if (std::exchange(broken_while_frozen_[i], false)) site.lost("the connection was closed");
    ASSERT_FALSE(site.failure()) << "site " << i << ": " << site.failure()->why << ", seed "
                                 << options_.seed;
    const Site::Plan plan = site.plan();
    // A new process begins to count anew; the network does not.
    const std::uint64_t wanted = plan.connection == 0 ? 0 : plan.connection + base_of(i);
    if (wanted != player.connection) {
      player.connection = wanted;
      hub_of_[i] = static_cast<int>(plan.hub);
      const bool silent = !reaches(i, hub_of_[i]);
      if (plan.connection != 0 && hubs_[plan.hub] && !silent) site.connected();
      if (plan.connection != 0 && !hubs_[plan.hub] && !silent) {
        player.connection = 0;
        site.lost("refused");
      }
    }
    if (site.begun()) train(i);
    while (auto bytes = site.next_out()) fly(i, true, bytes->joined());
    for (const std::string& line : site.take_log()) note("site " + std::to_string(i) + ": " + line);
  }

  // The site goes on with what it has taken over.
  bool takes_over(Player& player) {
    Site& site = *player.site;
    if (!site.outdated()) return false;
    if (!site.state().complete()) return true;
    const std::vector<RunState> states = site.resume(options_.delay);
    for (std::uint32_t part = 0; part < options_.parts; ++part) {
      EXPECT_EQ(states[part].bytes.size(), options_.state_bytes);
      player.replica[part] = replica_in(states[part].bytes);
    }
    ++player.takeovers;
    player.phase = 0;
    player.posted = states[0].step;
    player.collected = player.posted - std::min(player.posted, options_.delay);
    player.said.clear();
    player.heard.clear();  // the run may have decided these rounds anew
    // As DelayedSync does: an empty word where the others may wait for one.
    for (std::uint64_t round = player.collected; round < player.posted; ++round) {
      post(player, round);
    }
    return true;
  }

  Slot slot(std::uint64_t number, std::uint32_t part) const {
    return {{0, number, 0}, Kind::gather, part};
  }

  bool missed(const Player& player, std::uint64_t round) const {
    bool missed = true;
    for (std::uint32_t part = 0; part < options_.parts; ++part) {
      missed = missed && player.site->rounds().missed(slot(round, part));
    }
    return missed;
  }

  void post(Player& player, std::uint64_t round) {
    const bool late = missed(player, round);
    player.said[round] = !late;
    for (std::uint32_t part = 0; !late && part < options_.parts; ++part) {
      player.site->rounds().post(slot(round, part), frame_of(player.site->site(), part, round));
    }
  }

  // The two phases of a repair, in the step of the last post. True: the site is still in them.
  bool in_words(Player& player) {
    while (player.phase != 0) {
      SiteRounds& rounds = player.site->rounds();
      const Slot first{{0, player.posted - 1, player.phase}, Kind::gather, 0};
      Slot slot = first;
      if (!rounds.ready(first)) {
        for (; slot.part < options_.parts; ++slot.part) rounds.wait_for(slot);
        return true;
      }
      for (; slot.part < options_.parts; ++slot.part) {
        std::uint64_t& replica = player.replica[slot.part];
        replica = replica_after(replica, rounds.collect(slot));
      }
      player.phase = player.phase == 254 ? 255 : 0;
      if (player.phase != 0) say_word(player);
    }
    return false;
  }

  void say_word(Player& player) {
    Slot slot{{0, player.posted - 1, player.phase}, Kind::gather, 0};
    for (; slot.part < options_.parts; ++slot.part) {
      const std::uint64_t of_phase = slot.round.number * 1000 + player.phase;
      player.site->rounds().post(slot, frame_of(player.site->site(), slot.part, of_phase));
    }
  }

  void give_state(Player& player) {
    SiteState& state = player.site->state();
    for (std::uint32_t part = 0; part < options_.parts; ++part) {
      if (!state.wanted(part)) continue;
      Bytes bytes = state_of(player.replica[part], options_.state_bytes);
      const std::uint64_t hash = hash64(ByteView(bytes));
      state.give(part, std::move(bytes), hash);
    }
  }

  void train(int i) {
    Player& player = players_[i];
    if (takes_over(player) || in_words(player)) return;
    SiteRounds& rounds = player.site->rounds();
    while (player.posted < options_.rounds && player.posted <= player.collected + options_.delay) {
      for (std::uint32_t part = 0; part < options_.parts; ++part) {
        player.site->state().at_step(part, player.posted);
      }
      give_state(player);
      // Not every site is as fast.
      if (!missed(player, player.posted) && chance(3) == 0) break;
      post(player, player.posted);
      ++player.posted;
    }
    if (player.collected >= options_.rounds) return;
    const bool due =
        player.posted > player.collected + options_.delay || player.posted == options_.rounds;
    if (!due) return;
    if (!rounds.ready(slot(player.collected, 0))) {
      for (std::uint32_t part = 0; part < options_.parts; ++part) {
        rounds.wait_for(slot(player.collected, part));
      }
      give_state(player);  // still in the step of the last post
      return;
    }
    std::vector<SharedResult> results;
    for (std::uint32_t part = 0; part < options_.parts; ++part) {
      results.push_back(rounds.collect(slot(player.collected, part)));
      player.replica[part] = replica_after(player.replica[part], results.back());
    }
    player.heard[player.collected] = std::move(results);
    const bool in_step = player.posted == player.collected + options_.delay + 1;
    ++player.collected;
    if (options_.words == 0 || !in_step || player.posted % options_.words != 0) return;
    player.phase = 254;
    say_word(player);
  }

  const WorldOptions options_;
  double now_ = 100.0;
  std::uint64_t drawn_ = 0;
  std::uint64_t hub_count_ = 0;
  std::uint64_t processes_ = 0;
  int deaths_ = 0;
  std::map<std::pair<std::uint64_t, std::uint32_t>, SharedResult> history_;  // by round and part
  std::vector<std::unique_ptr<Core>> hubs_;
  std::vector<Player> players_;
  std::map<int, int> hub_of_;
  std::map<std::pair<int, int>, bool> apart_;  // site and hub
  std::map<int, std::uint64_t> base_;
  std::map<int, bool> broken_while_frozen_;
  std::map<std::pair<int, bool>, double> last_arrival_;
  std::vector<Flight> flights_;
  std::vector<std::string> notes_;
};

}  // namespace thinwire::hub
