// A simulated run of the far link: sites that follow the rules of docs/far_link.md, the hub's real
// judgement, and a network that delays, loses and repeats messages. One thread, virtual time, every
// history replayed by its seed. The world itself checks that no two sites get different results of
// a round, and that every frame is what its site posted.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/hub_site.h"
#include "transports/hub_core_internal.h"

namespace thinwire::test {

struct WorldOptions {
  std::uint64_t seed = 1;
  RunPlan plan;
  hub::CoreOptions hub{.run = "run", .peer_timeout_s = 10.0};
  double delay_min_s = 0.005;
  double delay_max_s = 0.050;
  double loss = 0.0;    // of any message
  double repeat = 0.0;  // of any message, once more and later
};

class HubWorld {
 public:
  explicit HubWorld(WorldOptions options) : options_(std::move(options)), dice_(options_.seed) {
    options_.hub.sites = options_.plan.sites;
    start_hub();
    for (int i = 0; i < options_.plan.sites; ++i) add_site({.name = std::string(1, char('a' + i))});
  }

  SimSite& add_site(SiteOptions options) {
    options.process = mix(options_.seed * 1000 + sites_.size());
    sites_.push_back(std::make_unique<SimSite>(
        options, options_.plan, dice_.next(),
        [this](SimSite& from, const hub::Message& message) { site_sends(from, message); }));
    SimSite* site = sites_.back().get();
    at(now_, [this, site] { beat(*site); });
    return *site;
  }
  SimSite& site(int i) { return *sites_[static_cast<std::size_t>(i)]; }
  hub::Core& core() { return *core_; }
  double now() const { return now_; }
  std::size_t rounds() const { return verdicts_.size(); }
  const std::map<hub::Key, Result>& verdicts() const { return verdicts_; }
  const std::vector<std::string>& log() const { return log_; }

  void at(double time, std::function<void()> what) {
    queue_.emplace(std::pair(std::max(time, now_), ++events_), std::move(what));
  }
  void kill_hub() { core_.reset(); }
  void start_hub() {
    ++generation_;
    hub_tick_at_ = hub::kNever;
    options_.hub.hub = generation_;
    core_ = std::make_unique<hub::Core>(options_.hub);
  }
  void freeze(SimSite& site) { site.frozen = true; }
  void thaw(SimSite& site) {
    site.frozen = false;
    for (auto& message : std::exchange(site.inbox, {})) site.hear(now_, message);
  }

  // Until everybody who can has finished, or the limit; true: finished. Then compares what they
  // got.
  bool run(double limit_s) {
    while (!queue_.empty() && queue_.begin()->first.first <= limit_s && !all_finished()) {
      auto event = queue_.extract(queue_.begin());
      now_ = event.key().first;
      event.mapped()();
    }
    for (const auto& site : sites_) {
      if (!site->alive || !site->stopped.empty()) continue;  // what they hold went with them
      for (const auto& [key, result] : site->results) audit(*site, result);
    }
    return all_finished();
  }

 private:
  bool all_finished() const {
    return std::all_of(sites_.begin(), sites_.end(), [](const auto& site) {
      return site->finished() || !site->alive || !site->stopped.empty();
    });
  }

  void beat(SimSite& site) {
    if (!site.alive) return;
    if (!site.frozen) site.beat(now_);
    at(now_ + 0.1, [this, &site] { beat(site); });
  }

  double delay() {
    return options_.delay_min_s + dice_.uniform() * (options_.delay_max_s - options_.delay_min_s);
  }

  // In order on one direction of one connection; a repeated copy comes whenever it likes.
  void carry(const std::string& way, std::function<void()> deliver) {
    if (dice_.uniform() < options_.repeat) at(now_ + 10.0 * delay(), deliver);
    if (dice_.uniform() < options_.loss) return;
    double& last = arrivals_[way];
    last = std::max(last, now_ + delay());
    at(last, std::move(deliver));
  }

  void site_sends(SimSite& from, const hub::Message& message) {
    if (!core_) return;  // nothing is queued for a hub that is not there
    if (from.connected_to != generation_) {
      from.connected_to = generation_;
      ++from.connection;
    }
    const std::string peer = from.peer();
    const Bytes bytes = hub::encode(message);
    carry("up " + peer, [this, peer, bytes, generation = generation_, &from] {
      if (!core_ || generation != generation_) return;
      after_hub(core_->receive(now_, peer, from.options.key, *hub::decode(bytes)));
    });
  }

  void after_hub(std::vector<hub::Out> out) {
    for (hub::Out& each : out) {
      const Bytes bytes = hub::encode(each.message);
      carry("down " + each.to, [this, to = each.to, bytes] {
        for (auto& site : sites_) {
          if (!site->alive || site->peer() != to) continue;
          if (site->frozen) {
            site->inbox.push_back(*hub::decode(bytes));
          } else {
            site->hear(now_, *hub::decode(bytes));
          }
        }
      });
    }
    for (std::string& line : core_->take_log()) log_.push_back(std::move(line));
    const double next = core_->next_tick();
    if (next < hub_tick_at_) {
      hub_tick_at_ = next;
      at(next, [this, generation = generation_] {
        if (!core_ || generation != generation_) return;
        hub_tick_at_ = hub::kNever;
        after_hub(core_->tick(now_));
      });
    }
  }

  void audit(const SimSite& who, const Result& result) {
    const auto [first, fresh] = verdicts_.emplace(result.key, result);
    EXPECT_EQ(first->second.absent, result.absent)
        << "round " << result.key.number << " at site " << who.options.name << ", seed "
        << options_.seed;
    EXPECT_EQ(first->second.frames, result.frames)
        << "round " << result.key.number << ", seed " << options_.seed;
    if (fresh) {
      EXPECT_EQ(result.frames, expected_frames(options_.plan, result.key, result.absent));
    }
  }

  WorldOptions options_;
  Dice dice_;
  double now_ = 0.0;
  std::uint64_t events_ = 0;
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> queue_;
  std::unique_ptr<hub::Core> core_;
  std::uint64_t generation_ = 0;
  double hub_tick_at_ = hub::kNever;
  std::vector<std::unique_ptr<SimSite>> sites_;
  std::map<std::string, double> arrivals_;
  std::map<hub::Key, Result> verdicts_;
  std::vector<std::string> log_;
};

}  // namespace thinwire::test
