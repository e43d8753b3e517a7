// A site of the far link as docs/far_link.md wants it, in virtual time: what a real site's I/O
// thread and training thread do, without sockets and without training.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/hub_plan.h"
#include "thinwire/error.h"
#include "transports/hub_messages_internal.h"

namespace thinwire::test {

class SimSite {
 public:
  using Send = std::function<void(SimSite&, const hub::Message&)>;

  SimSite(SiteOptions site, RunPlan plan, std::uint64_t seed, Send send)
      : options(std::move(site)), plan_(plan), dice_(seed), send_(std::move(send)) {}

  SiteOptions options;
  bool alive = true;
  bool frozen = false;
  std::string stopped;  // by a final refusal
  std::string last_refusal;
  std::vector<hub::Message> inbox;  // while frozen
  std::uint64_t connected_to = 0;   // which hub process
  int connection = 0;
  std::function<void(const Result&)> on_result;
  std::map<hub::Key, bool> included;  // of every result it got
  std::map<hub::Key, Result> results;
  int welcomes = 0;
  std::uint32_t epoch = 0;
  std::uint32_t number = hub::kNoNumber;

  std::string peer() const {
    return options.name + "/" + std::to_string(options.process) + "#" + std::to_string(connection);
  }
  bool finished() const { return step_ == plan_.steps && !waiting_ && posted_.empty(); }
  std::uint64_t step() const { return step_; }

  // Timers and the training thread; called often.
  void beat(double now) {
    if (!stopped.empty()) return;
    notice_own_stall(now);
    if (now - last_heard_ >= plan_.peer_timeout_s) {
      last_heard_ = now;
      welcomed_ = false;
      ++connection;
    }
    if (!welcomed_) {
      if (now >= next_hello_) say_hello(now);
      return train(now);
    }
    if (now >= next_ping_) {
      next_ping_ = now + plan_.peer_timeout_s / 4;
      send_(*this, hub::Ping{step_});
    }
    if (now >= next_repeat_) repeat(now, false);
    train(now);
  }

  void hear(double now, const hub::Message& message) {
    if (!stopped.empty()) return;
    notice_own_stall(now);
    last_heard_ = now;
    if (const auto* refused = std::get_if<hub::Refused>(&message)) {
      last_refusal = refused->why;
      if (refused->final) stopped = refused->why;
    } else if (const auto* welcome = std::get_if<hub::Welcome>(&message)) {
      hear_welcome(now, *welcome);
    } else if (welcomed_) {
      hear_in_run(now, message);
    }
  }

 private:
  void say_hello(double now) {
    next_hello_ = now + 1.0;
    hub::Hello hello{.run = options.run,
                     .site = options.name,
                     .process = options.process,
                     .agreement = options.agreement,
                     .agreed = options.agreed,
                     .parts = plan_.parts};
    hello.number = number;
    hello.epoch = epoch;
    // Phases of the highest round it spoke of may still come.
    hello.next_round = touched_;
    if (!posted_.empty()) hello.next_round = std::min(touched_, posted_.begin()->first.number);
    if (waiting_) hello.next_round = std::min(hello.next_round, waiting_->number);
    for (const auto& [key, result] : results) {
      if (key.number >= hello.next_round) hello.ahead.push_back(hub::slot_of(key, 0));
    }
    for (const auto& [key, result] : results) hello.recent.push_back(hash_of(result));
    if (hello.recent.size() > hub::kRecentMax) {
      hello.recent.erase(hello.recent.begin(), hello.recent.end() - hub::kRecentMax);
    }
    send_(*this, hello);
  }

  static hub::RoundHash hash_of(const Result& result) {
    std::uint64_t hash = 0;
    for (const PartFrames& part : result.frames) {
      std::vector<hub::SharedFrame> frames;
      for (const auto& [site, bytes] : part) frames.push_back({site, bytes});
      hash = hub::fold_result(hash, frames, result.absent);
    }
    return {hub::slot_of(result.key, 0), hash};
  }

  void hear_welcome(double now, const hub::Welcome& welcome) {
    ++welcomes;
    // What takes the state over is played by real sites in zmq_site_test.
    if (welcome.takeover != hub::kNoStep && !results.empty())
      stopped = "is to take the run's state over";
    epoch = std::max(epoch, welcome.epoch);
    number = welcome.site;
    if (welcomed_) return;
    welcomed_ = true;
    partial_.clear();  // may be an earlier hub's
    taken_.clear();
    repeat(now, true);
    // Rounds closed meanwhile; it need not compute for them.
    for (std::uint64_t round = step_; round < welcome.next_round; ++round) {
      const hub::Key key{round, 0, plan_.kind};
      if (results.contains(key) || posted_.contains(key)) continue;
      for (std::uint32_t part = 0; part < plan_.parts; ++part)
        send_(*this, hub::Want{hub::slot_of(key, part)});
    }
  }

  void hear_in_run(double now, const hub::Message& message) {
    if (const auto* pong = std::get_if<hub::Pong>(&message)) {
      if (pong->active) return;
      welcomed_ = false;
      next_hello_ = now;
    } else if (const auto* taken = std::get_if<hub::Taken>(&message)) {
      taken_.insert({hub::key_of(taken->slot), taken->slot.part});
    } else if (const auto* closed = std::get_if<hub::Closed>(&message)) {
      epoch = std::max(epoch, closed->slot.round.epoch);
      hear_closed(*closed);
      train(now);
    } else if (const auto* missing = std::get_if<hub::Missing>(&message)) {
      const auto found = results.find(hub::key_of(missing->slot));
      if (found != results.end()) answer(*missing, found->second);
    }
  }

  void answer(const hub::Missing& missing, const Result& result) {
    hub::Bundle bundle{missing.slot, {}, result.absent};
    for (const auto& [site, bytes] : result.frames[missing.slot.part])
      bundle.frames.push_back({site, bytes});
    send_(*this, bundle);
  }

  // A round is a result when all parts are there, not before.
  void hear_closed(const hub::Closed& closed) {
    const hub::Key key = hub::key_of(closed.slot);
    if (results.contains(key)) return;
    auto& parts = partial_[key];
    parts[closed.slot.part] = closed;
    if (parts.size() < plan_.parts) return;
    Result result{key, closed.absent, {}};
    bool counted = closed.included;
    for (const auto& [part, each] : parts) {
      PartFrames frames;
      for (const hub::SharedFrame& frame : each.frames) {
        frames.emplace_back(frame.site, frame.bytes.copy());
        // By way of an earlier hub; a reduce does not say.
        counted =
            counted || (plan_.kind == hub::Kind::gather && frame.site == static_cast<int>(number));
      }
      counted = counted || (plan_.kind == hub::Kind::reduce &&
                            !std::count(closed.absent.begin(), closed.absent.end(), number));
      if (each.included && plan_.kind == hub::Kind::gather) {
        TW_CHECK(posted_.contains(key));  // counted in, but never said anything
        frames.emplace_back(static_cast<int>(number), posted_[key][part]);
        std::sort(frames.begin(), frames.end());
      }
      result.frames.push_back(std::move(frames));
    }
    included[key] = counted;
    partial_.erase(key);
    posted_.erase(key);
    if (on_result) on_result(result);
    results[key] = std::move(result);
  }

  // Posts not known to be held by the hub, and questions after results that should be there.
  void repeat(double now, bool all) {
    next_repeat_ = now + plan_.peer_timeout_s / 4;
    for (const auto& [key, frames] : posted_) {
      for (std::uint32_t part = 0; part < plan_.parts; ++part) {
        const bool taken = !all && taken_.contains({key, part});
        if (taken) send_(*this, hub::Want{hub::slot_of(key, part)});
        if (!taken) send_(*this, hub::Post{hub::slot_of(key, part), frames[part]});
      }
    }
    if (!waiting_ || posted_.contains(*waiting_)) return;
    for (std::uint32_t part = 0; part < plan_.parts; ++part)
      send_(*this, hub::Want{hub::slot_of(*waiting_, part)});
  }

  void train(double now) {
    while (number != hub::kNoNumber && step_ < plan_.steps) {
      if (waiting_) {
        if (!results.contains(*waiting_)) return;
        waiting_.reset();
        ++phase_;
      } else if (phase_ == 0 && !computing_) {
        computing_ = true;
        // A site that is behind need not compute what nobody will hear.
        const bool over = results.contains({step_, 0, plan_.kind});
        done_at_ = now + (over ? 0.0 : compute_s());
      } else if (computing_ && now < done_at_) {
        return;
      } else if (phase_ == plan_.phases) {
        ++step_;
        phase_ = 0;
      } else {
        computing_ = false;
        say(hub::Key{step_, phase_, plan_.kind});
      }
    }
  }

  double compute_s() {
    const double spread = plan_.compute_max_s - plan_.compute_min_s;
    return options.slower * (plan_.compute_min_s + dice_.uniform() * spread);
  }

  // What waits in the queue of a site that stood still may be the word of a hub that is gone.
  void notice_own_stall(double now) {
    if (now - last_beat_ >= plan_.peer_timeout_s) welcomed_ = false;
    last_beat_ = now;
  }

  // Nothing is said in a round that is over.
  void say(const hub::Key& key) {
    touched_ = key.number;
    if (!results.contains(key)) {
      auto& frames = posted_[key];
      for (std::uint32_t part = 0; part < plan_.parts; ++part) {
        frames.push_back(frame_of(plan_, static_cast<int>(number), key, part));
        if (welcomed_) send_(*this, hub::Post{hub::slot_of(key, part), frames[part]});
      }
    }
    if (key.phase > 0) {
      waiting_ = key;
    } else if (key.number < plan_.delay) {
      ++phase_;
    } else {
      waiting_ = hub::Key{key.number - plan_.delay, 0, key.kind};
    }
  }

  RunPlan plan_;
  Dice dice_;
  Send send_;
  bool welcomed_ = false;
  double next_hello_ = 0.0;
  double last_heard_ = 0.0;
  double last_beat_ = 0.0;
  double next_ping_ = 0.0;
  double next_repeat_ = 0.0;
  std::map<hub::Key, std::vector<Bytes>> posted_;  // and not yet closed
  std::set<std::pair<hub::Key, std::uint32_t>> taken_;
  std::map<hub::Key, std::map<std::uint32_t, hub::Closed>> partial_;
  std::uint64_t step_ = 0;
  std::uint32_t phase_ = 0;
  std::uint64_t touched_ = 0;
  bool computing_ = false;
  double done_at_ = 0.0;
  std::optional<hub::Key> waiting_;
};

}  // namespace thinwire::test
