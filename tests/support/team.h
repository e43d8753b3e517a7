// Sites of a method, played by hand: who is heard and whose gradient is of use is the test's
// choice. Every site has a target of its own, so that each wants to go another way.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "optimizers/catalog.h"
#include "optimizers/tile_values.h"
#include "tests/support/random.h"
#include "thinwire/coarse.h"

namespace thinwire::test {

using Set = std::map<std::string, std::string>;

// Two units of a matrix and a vector each, most of their tiles edge tiles.
inline std::vector<ParameterSpec> two_units() {
  return {{"a", {64, 70}, 0}, {"b", {9}, 0}, {"c", {40, 64}, 1}, {"d", {70}, 1}};
}

// An inner rule that can be told in advance.
inline Set sgd_inside(const Set& more) {
  Set settings{{"inner", "sgd"}, {"momentum", "0.5"}, {"clip", "0"}, {"weight_decay", "0"}};
  settings.insert(more.begin(), more.end());
  return settings;
}

// into += times what was said of values as they are.
inline void add_said(const Update& update, Coarse coarse, const Shard& shard,
                     std::vector<double>& into, double times = 1.0) {
  const Picks& picks = update.picks;
  std::size_t pick = 0, spoken = 0;
  for (std::size_t t = 0; t < picks.counts.size(); ++t) {
    const float scale = picks.counts[t] > 0 && !picks.scales.empty() ? picks.scales[spoken] : 0.0f;
    spoken += picks.counts[t] > 0 ? 1 : 0;
    for (int i = 0; i < picks.counts[t]; ++i, ++pick) {
      const std::size_t at = value_at(shard.tiles()[t], picks.positions[pick]);
      if (at < into.size()) into[at] += times * decode(coarse, picks.codes[pick], scale);
    }
  }
}

// What happens to sites in a step.
struct Fate {
  std::set<int> late = {};     // what these say in the step is not heard
  std::set<int> useless = {};  // the gradients of these are not finite
  std::set<int> away = {};     // these compute nothing; they listen
};

class Team {
 public:
  struct Site {
    std::unique_ptr<Optimizer> optimizer;
    Shard shard;
    std::vector<float> moved;         // by its inner rule, in all
    std::vector<float> local_before;  // the last apply

    bool has_local() const {
      return std::ranges::any_of(shard.states(),
                                 [](const StateSpec& spec) { return spec.name == "local"; });
    }
  };

  Team(std::vector<ParameterSpec> parameters, const std::string& name, const Set& settings,
       int sites, float lr = 0.05f)
      : layout_(std::move(parameters)), lr_(lr) {
    for (int i = 0; i < sites; ++i) {
      Settings of_method(name, settings);
      auto optimizer = optimizer_catalog().make(name, of_method);
      const Traits traits = optimizer->traits();
      Shard shard(layout_, 0, 1, traits.states, traits.whole_matrices);
      for (std::size_t j = 0; j < shard.params().size(); ++j) shard.params()[j] = noise(5, j);
      const std::vector<float> zeros(shard.params().size(), 0.0f);
      sites_.push_back({std::move(optimizer), std::move(shard), zeros, zeros});
    }
  }

  Site& operator[](int site) { return sites_.at(static_cast<std::size_t>(site)); }
  int sites() const { return static_cast<int>(sites_.size()); }
  std::uint64_t steps() const { return index_; }
  float target(int site, std::size_t i) const {
    return 3.0f * noise(77, i) + noise(100 + static_cast<std::uint64_t>(site), i);
  }
  // Of all sites, at the common parameters.
  double loss() {
    double sum = 0.0;
    for (int s = 0; s < sites(); ++s) {
      for (std::size_t i = 0; i < sites_[0].shard.params().size(); ++i) {
        const double away = sites_[0].shard.params()[i] - target(s, i);
        sum += away * away;
      }
    }
    return sum;
  }
  // What every site said in the step that the last one heard, in site order.
  const std::vector<Contribution>& heard() const { return heard_; }

  void step(const Fate& fate = {}) {
    Step step{.index = index_, .lr = lr_, .sites = sites(), .norm = 1.0};
    Said said{step, {}, fate.late};
    for (int s = 0; s < sites(); ++s) said.updates.push_back(say(s, step, fate));
    said_.push_back(std::move(said));
    const auto delay = static_cast<std::size_t>(sites_[0].optimizer->traits().delay);
    heard_.clear();
    if (said_.size() > delay) {
      const Said due = std::move(said_.front());
      said_.pop_front();
      for (int s = 0; s < sites(); ++s) {
        const Update& update = due.updates[static_cast<std::size_t>(s)];
        if (update.empty()) continue;
        if (due.late.contains(s)) {
          sites_[s].optimizer->take_back(due.step, sites_[s].shard, update);
        } else {
          heard_.push_back({s, update});
        }
      }
      step.age = static_cast<int>(delay);
    }
    for (Site& site : sites_) {
      if (site.has_local()) copy(site.shard.state("local"), site.local_before);
      site.optimizer->apply(step, site.shard, heard_);
    }
    ++index_;
  }

  // All that is in flight goes back to its senders, as when a run goes on with other sites.
  void take_all_back() {
    for (Said& said : said_) {
      for (int s = 0; s < sites(); ++s) {
        Update& update = said.updates[static_cast<std::size_t>(s)];
        sites_[s].optimizer->take_back(said.step, sites_[s].shard, update);
        update = {};
      }
    }
    for (Site& site : sites_) {
      for (const StateSpec& spec : site.shard.states()) {
        if (spec.in_flight) std::ranges::fill(site.shard.state(spec.name), 0.0f);
      }
    }
  }

 private:
  struct Said {
    Step step;
    std::vector<Update> updates;
    std::set<int> late;
  };

  static void copy(ConstFloats from, std::vector<float>& to) {
    to.assign(from.begin(), from.end());
  }

  Update say(int s, const Step& step, const Fate& fate) {
    if (fate.away.contains(s)) return {};
    Site& site = sites_[static_cast<std::size_t>(s)];
    const ConstFloats at = site.optimizer->gradient_point(step, site.shard);
    for (std::size_t i = 0; i < at.size(); ++i) site.shard.grad()[i] = at[i] - target(s, i);
    if (fate.useless.contains(s)) return {};
    std::vector<float> before;
    if (site.has_local()) copy(site.shard.state("local"), before);
    Update update = site.optimizer->extract(step, site.shard);
    for (std::size_t i = 0; i < before.size(); ++i) {
      site.moved[i] += site.shard.state("local")[i] - before[i];
    }
    return update;
  }

  Layout layout_;
  float lr_;
  std::vector<Site> sites_;
  std::uint64_t index_ = 0;
  std::deque<Said> said_;
  std::vector<Contribution> heard_;
};

}  // namespace thinwire::test
