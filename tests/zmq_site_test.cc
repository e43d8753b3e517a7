// Sites against the hub's judgement over a network of the test's own: messages take time,
// connections break, hubs die and begin anew, sites freeze; all in virtual time and without a
// socket.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "transports/hub_core_internal.h"
#include "transports/zmq_site_internal.h"

namespace thinwire::hub {
namespace {

constexpr double kStep = 0.01;  // of the virtual clock, s

Bytes frame_of(int site, std::uint32_t part, std::uint64_t number) {
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
  bool may_fail = false;  // a site's refusal is no failure of the test
};

// One site, its ranks in step, and its end of a connection.
struct Player {
  std::unique_ptr<Site> site;
  std::uint64_t connection = 0;
  std::uint64_t posted = 0;  // rounds
  std::uint64_t collected = 0;
  bool frozen = false;  // the whole process
  std::string failure;  // why it is out of the run
  std::vector<bool> said;
  std::vector<std::vector<RoundResult>> heard;  // by round, by part
};

class World {
 public:
  ~World() {
    if (testing::Test::HasFailure()) show();
  }
  explicit World(WorldOptions options) : options_(options), hubs_(options.hubs) {
    for (auto& hub : hubs_) hub = new_hub();
    for (int i = 0; i < options.sites; ++i) {
      SiteOptions site;
      site.site = std::string("site-") + static_cast<char>('a' + i);
      site.process = static_cast<std::uint64_t>(i) + 1;
      site.parts = options.parts;
      site.peer_timeout_s = options.peer_timeout_s;
      for (int hub = 0; hub < options.hubs; ++hub) site.hubs.push_back(std::to_string(hub));
      players_.emplace_back().site = std::make_unique<Site>(site, now_);
    }
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
      if (players_[i].connection != 0 && hub_of_[i] == hub) break_connection(i);
    }
  }
  void start_hub(int hub) { hubs_[hub] = new_hub(); }
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
      if (!players_[i].frozen && players_[i].failure.empty()) play(i);
    }
  }

  bool done() const {
    return std::all_of(players_.begin(), players_.end(), [&](const Player& one) {
      return one.collected == options_.rounds || !one.failure.empty();
    });
  }
  // Until all have all rounds, or that much time has passed.
  void run(double most_s) {
    for (const double end = now_ + most_s; now_ < end && !done() && !testing::Test::HasFailure();)
      step();
    EXPECT_TRUE(done()) << "stuck at " << now_ << " s, seed " << options_.seed;
  }

  void expect_one_history(bool whole) {
    if (testing::Test::HasFailure()) return;
    const auto alive = std::find_if(players_.begin(), players_.end(),
                                    [](const Player& one) { return one.failure.empty(); });
    if (alive == players_.end()) return;
    for (std::uint64_t round = 0; round < options_.rounds; ++round) {
      for (std::uint32_t part = 0; part < options_.parts; ++part) {
        const RoundResult& first = alive->heard[round][part];
        for (int i = 0; i < options_.sites; ++i) {
          if (!players_[i].failure.empty()) continue;
          const RoundResult& one = players_[i].heard[round][part];
          EXPECT_EQ(one.absent, first.absent) << "site " << i << ", round " << round;
          ASSERT_EQ(one.frames.size(), first.frames.size()) << "site " << i << ", round " << round;
          const bool absent =
              std::find(one.absent.begin(), one.absent.end(), i) != one.absent.end();
          EXPECT_TRUE(absent || players_[i].said[round]) << "site " << i << ", round " << round;
        }
        for (const SiteFrame& frame : first.frames) {
          EXPECT_EQ(frame.bytes, frame_of(frame.site, part, round));
        }
        EXPECT_EQ(first.frames.size() + first.absent.size(),
                  static_cast<std::size_t>(options_.sites));
        EXPECT_TRUE(!whole || first.absent.empty()) << "round " << round;
      }
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
    options.hub = ++hub_count_;
    options.sites = options_.sites;
    options.peer_timeout_s = options_.peer_timeout_s;
    options.round_deadline_s = options.shortest_s = 5.0;
    return std::make_unique<Core>(options);
  }

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
      if (flight.at > now_ || (!flight.up && player.frozen)) {
        flights_.push_back(std::move(flight));
        continue;
      }
      Result<Message> message = decode(flight.bytes);
      ASSERT_TRUE(message) << message.why();
      if (flight.up) {
        Core& hub = *hubs_[hub_of_[flight.site]];
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
    if (site.failure()) {
      player.failure = site.failure()->why;
      note("site " + std::to_string(i) + ": " + player.failure);
      ASSERT_TRUE(options_.may_fail) << "site " << i << ": " << player.failure;
      return;
    }
    const Site::Plan plan = site.plan();
    if (plan.connection != player.connection) {
      player.connection = plan.connection;
      hub_of_[i] = static_cast<int>(plan.hub);
      if (plan.connection != 0 && hubs_[plan.hub]) site.connected();
      if (plan.connection != 0 && !hubs_[plan.hub]) {
        player.connection = 0;
        site.lost("refused");
      }
    }
    if (site.begun()) train(i);
    while (auto bytes = site.next_out()) fly(i, true, std::move(*bytes));
    for (const std::string& line : site.take_log()) note("site " + std::to_string(i) + ": " + line);
  }

  void train(int i) {
    Player& player = players_[i];
    SiteRounds& rounds = player.site->rounds();
    const auto slot = [](std::uint64_t number, std::uint32_t part) {
      return Slot{{0, number, 0}, Kind::gather, part};
    };
    while (player.posted < options_.rounds && player.posted <= player.collected + options_.delay) {
      bool missed = true;
      for (std::uint32_t part = 0; part < options_.parts; ++part) {
        missed = missed && rounds.missed(slot(player.posted, part));
      }
      // Not every site is as fast.
      if (!missed && chance(3) == 0) break;
      player.said.push_back(!missed);
      for (std::uint32_t part = 0; !missed && part < options_.parts; ++part) {
        rounds.post(slot(player.posted, part), frame_of(i, part, player.posted));
      }
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
      return;
    }
    std::vector<RoundResult> results;
    for (std::uint32_t part = 0; part < options_.parts; ++part) {
      results.push_back(rounds.collect(slot(player.collected, part)));
    }
    player.heard.push_back(std::move(results));
    ++player.collected;
  }

  const WorldOptions options_;
  double now_ = 100.0;
  std::uint64_t drawn_ = 0;
  std::uint64_t hub_count_ = 0;
  std::vector<std::unique_ptr<Core>> hubs_;
  std::vector<Player> players_;
  std::map<int, int> hub_of_;
  std::map<int, bool> broken_while_frozen_;
  std::map<std::pair<int, bool>, double> last_arrival_;
  std::vector<Flight> flights_;
  std::vector<std::string> notes_;
};

TEST(ZmqSite, AnUndisturbedRunHearsEveryoneInEveryRound) {
  for (std::uint64_t delay : {0u, 1u, 5u}) {
    World world({.delay = delay});
    world.run(60.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, BrokenConnectionsCostNothing) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 4, .seed = seed, .peer_timeout_s = 3.0});
    for (int i = 0; i < 400 && !world.done(); ++i) {
      world.step();
      if (world.chance(20) == 0) world.break_connection(static_cast<int>(world.chance(3)));
    }
    world.run(120.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, HubsThatDieAndComeBackLoseNoRound) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 3, .seed = seed, .peer_timeout_s = 2.0});
    for (int death = 0; death < 6; ++death) {
      for (std::uint64_t i = world.chance(80) + 20; i > 0; --i) world.step();
      world.kill_hub(0);
      for (std::uint64_t i = world.chance(60); i > 0; --i) world.step();
      world.start_hub(0);
    }
    world.run(120.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, AllMoveToTheNextHub) {
  for (std::uint64_t seed = 1; seed <= 50 && !HasFailure(); ++seed) {
    World world({.seed = seed, .hubs = 2});
    for (int i = 0; i < 120; ++i) world.step();
    world.kill_hub(0);
    world.run(60.0);
    world.expect_one_history(true);
  }
}

TEST(ZmqSite, AFrozenSiteCatchesUpAfterItsThaw) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    World world({.delay = seed % 3, .seed = seed});
    for (int i = 0; i < 100; ++i) world.step();
    world.player(1).frozen = true;
    for (int i = 0; i < 250; ++i) world.step();
    if (seed % 2 == 0) world.break_connection(1);
    world.player(1).frozen = false;
    const std::uint64_t behind = world.player(1).collected;
    EXPECT_GT(world.player(0).collected, behind) << "the others went on";
    world.run(120.0);
    world.expect_one_history(false);
  }
}

// Hubs die, connections break and sites freeze. A site may find that the others had to go on
// without it and is refused then; those that stay have one history, and hardly any is ever refused.
TEST(ZmqSite, AllTroublesAtOnceLeaveOneHistory) {
  int refused = 0;
  const std::uint64_t seeds = 300;
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    World world({.sites = 4, .rounds = 60, .delay = seed % 3, .seed = seed, .may_fail = true});
    int frozen = -1;
    for (int i = 0; i < 1500 && !world.done(); ++i) {
      world.step();
      if (world.chance(250) == 0) {
        world.kill_hub(0);
        for (std::uint64_t wait = world.chance(40); wait > 0; --wait) world.step();
        world.start_hub(0);
      }
      if (world.chance(60) == 0) world.break_connection(static_cast<int>(world.chance(4)));
      if (world.chance(150) != 0) continue;
      if (frozen >= 0) world.player(frozen).frozen = false;
      frozen = frozen < 0 ? static_cast<int>(world.chance(4)) : -1;
      if (frozen >= 0) world.player(frozen).frozen = true;
    }
    if (frozen >= 0) world.player(frozen).frozen = false;
    world.run(200.0);
    world.expect_one_history(false);
    for (int i = 0; i < 4; ++i) refused += world.player(i).failure.empty() ? 0 : 1;
  }
  EXPECT_LT(refused, static_cast<int>(seeds / 4));
}

TEST(ZmqSite, GivesUpWithoutAHubAndForgivesItsOwnSleep) {
  SiteOptions options{
      .site = "a", .hubs = {"x", "y"}, .peer_timeout_s = 1.0, .hub_timeout_s = 10.0};
  Site site(options, 0.0);
  double now = 0.0;
  const auto wait = [&](double most_s) {
    for (const double end = now + most_s; now < end && !site.failure();) {
      site.tick(now += 0.05);
      if (site.plan().connection != 0) site.lost("refused");
    }
  };
  site.tick(now);
  site.connected();
  site.receive(Welcome{.site = 0, .sites = 1, .hub = 1}, 0);
  wait(5.0);
  EXPECT_FALSE(site.failure());
  now += 100.0;  // the process was stopped
  wait(2.0);
  EXPECT_FALSE(site.failure());
  wait(4.0);
  ASSERT_TRUE(site.failure());
  EXPECT_TRUE(site.failure()->hub_lost);
  EXPECT_NE(site.failure()->why.find("tried x, y"), std::string::npos) << site.failure()->why;
}

TEST(ZmqSite, TrustsNoResultThatCannotBe) {
  const auto verdict = [](Closed closed, bool posted) {
    SiteRounds rounds({.parts = 1});
    rounds.welcome(1, 0, false);
    if (posted) rounds.post(closed.slot, Bytes(3));
    return rounds.close(std::move(closed), 0);
  };
  const Slot gather{{0, 2, 0}, Kind::gather, 0};
  const Slot reduce{{0, 2, 0}, Kind::reduce, 0};
  EXPECT_EQ(verdict({gather, true, {{0, {}}}, {}}, true), "");
  EXPECT_NE(verdict({gather, true, {{0, {}}}, {}}, false), "");
  EXPECT_NE(verdict({gather, true, {{1, {}}}, {}}, true), "");
  EXPECT_NE(verdict({gather, true, {{2, {}}, {0, {}}}, {}}, true), "");
  EXPECT_NE(verdict({reduce, true, {{0, {}}, {1, {}}}, {}}, true), "");
  EXPECT_NE(verdict({{{0, 2, 0}, Kind::gather, 1}, false, {}, {}}, false), "");
}

TEST(ZmqSite, KeepsTheLastRoundsForAHubThatAsks) {
  SiteRounds rounds({.parts = 1, .rounds_kept = 8});
  rounds.welcome(1, 0, false);
  for (std::uint64_t number = 0; number < 30; ++number) {
    const Slot slot{{0, number, 0}, Kind::gather, 0};
    rounds.post(slot, frame_of(1, 0, number));
    EXPECT_EQ(rounds.close({slot, true, {{0, frame_of(0, 0, number)}}, {}}, 0), "");
    EXPECT_EQ(rounds.collect(slot).frames.size(), 2u);
  }
  int kept = 0;
  for (std::uint64_t number = 0; number < 30; ++number) {
    const auto bundle = rounds.bundle({{0, number, 0}, Kind::gather, 0});
    if (!bundle) continue;
    ++kept;
    ASSERT_EQ(bundle->frames.size(), 2u);
    EXPECT_EQ(bundle->frames[1].bytes, frame_of(1, 0, number));
  }
  EXPECT_EQ(kept, 9);  // and the one that the ranks are in
  EXPECT_EQ(rounds.next_round(), 29u);
  ASSERT_EQ(rounds.ahead().size(), 1u);
}

}  // namespace
}  // namespace thinwire::hub
