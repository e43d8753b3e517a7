// Sites that train over ZeroMQ through hubs on the loopback interface, all in one process, and an
// audit of what was said, heard and taken back.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/audited_sync.h"
#include "tests/support/site_run.h"
#include "transports/zmq.h"

namespace thinwire::test {

class RunningHub {
 public:
  explicit RunningHub(ZmqHubOptions options) : hub_(std::move(options)) {
    thread_ = std::jthread([this] { hub_.run(); });
  }
  ~RunningHub() { hub_.stop(); }
  std::string address() const { return hub_.address(); }
  int port() const { return std::stoi(address().substr(address().rfind(':') + 1)); }

 private:
  ZmqHub hub_;
  std::jthread thread_;
};

inline std::string far_site_name(int site) {
  return std::string("site-") + static_cast<char>('a' + site);
}

// What one rank of one site said, heard and had to take back, by step.
struct AuditedRank final : Witness {
  std::map<std::uint64_t, std::uint64_t> words;  // hashes of the updates it said
  std::map<std::uint64_t, std::map<int, std::uint64_t>> rounds;
  std::multiset<std::uint64_t> owed;

  void said(std::uint64_t round, std::uint64_t update) override { words[round] = update; }
  void heard(std::uint64_t round, const std::map<int, std::uint64_t>& updates) override {
    rounds[round] = updates;
  }
  void unheard(std::uint64_t round) override { owed.insert(round); }
};

struct FarRunOptions {
  SiteRunOptions run;  // world: sites and ranks
  std::function<std::vector<std::string>(int site)> hubs;
  std::chrono::milliseconds peer_timeout{10'000};
  std::function<void(Trainer&, int site, int rank)> before_step = {};
};

struct FarOutcome {
  std::vector<RankOutcome> ranks;  // by site, then by rank
  std::vector<AuditedRank> audits;
};

inline void play_far_rank(const FarRunOptions& far, ZmqLink& link, LoopbackWorld& near, int site,
                          int rank, FarOutcome& outcome) {
  const SiteRunOptions& run = far.run;
  const std::size_t at = static_cast<std::size_t>(site) * run.world.ranks + rank;
  const auto optimizer = run.optimizer();
  const auto model = run.model(site, rank);
  std::unique_ptr<Sync> sync;
  if (optimizer->traits().meeting == Meeting::reduce) {
    sync = std::make_unique<AllReduceSync>(link.collective(rank));
  } else {
    sync = std::make_unique<DelayedSync>(link.exchange(rank),
                                         DelayedSync::Options{.delay = optimizer->traits().delay});
  }
  AuditedSync audited(std::move(sync), outcome.audits[at]);
  Trainer trainer(*model, near.near(0, rank), *optimizer, audited,
                  {.schedule = run.schedule, .sites = run.world.sites, .chunking = run.chunking});
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    if (far.before_step) far.before_step(trainer, site, rank);
    outcome.ranks[at].reports.push_back(trainer.step());
  }
  outcome.ranks[at].hash = trainer.state_hash();
  outcome.ranks[at].traffic = audited.traffic();
}

inline FarOutcome run_far(const FarRunOptions& far) {
  const int sites = far.run.world.sites;
  const int ranks = far.run.world.ranks;
  FarOutcome outcome;
  outcome.ranks.resize(static_cast<std::size_t>(sites) * ranks);
  outcome.audits.resize(outcome.ranks.size());
  run_threads(sites, [&](int site) {
    ZmqLinkOptions options;
    options.hubs = far.hubs(site);
    options.site = far_site_name(site);
    options.ranks = ranks;
    options.peer_timeout = far.peer_timeout;
    ZmqLink link(options, 7, "method = test");
    LoopbackWorld near({.ranks = ranks});
    run_threads(ranks, [&](int rank) {
      try {
        play_far_rank(far, link, near, site, rank, outcome);
      } catch (const std::exception& error) {
        near.fail(error.what());
        throw;
      }
    });
  });
  return outcome;
}

// Every update that was said is applied by all sites once, or taken back once by the one that said
// it; `last` rounds at the end may still be in flight.
inline void expect_nothing_lost_or_doubled(const FarOutcome& outcome, int ranks,
                                           std::uint64_t rounds) {
  const int sites = static_cast<int>(outcome.audits.size()) / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    const AuditedRank& first = outcome.audits[rank];
    ASSERT_EQ(first.rounds.size(), rounds);
    for (int site = 0; site < sites; ++site) {
      const AuditedRank& audit = outcome.audits[site * ranks + rank];
      EXPECT_EQ(audit.rounds, first.rounds) << "site " << site;
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const auto said = audit.words.find(round);
        const auto& heard = first.rounds.at(round);
        const auto own = heard.find(site);
        if (own != heard.end()) {
          ASSERT_TRUE(said != audit.words.end()) << "site " << site << ", round " << round;
          EXPECT_EQ(own->second, said->second) << "site " << site << ", round " << round;
        }
        const bool owed = said != audit.words.end() && own == heard.end();
        EXPECT_EQ(audit.owed.count(round), owed ? 1u : 0u)
            << "site " << site << ", round " << round;
      }
    }
  }
}

}  // namespace thinwire::test
