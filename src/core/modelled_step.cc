// The time of a training step over modelled links (modelled_step_s).
#include <algorithm>
#include <deque>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/link_model.h"

namespace thinwire {
namespace {

using Times = std::vector<double>;  // one per site, seconds on the virtual clock

constexpr int kWarmUpSteps = 16;

std::vector<LinkModel> make_links(int sites, const LinkOptions& link, std::uint64_t seed) {
  std::vector<LinkModel> links;
  // Streams of neighbouring seeds must not overlap: each link starts far from the others.
  for (int site = 0; site < sites; ++site) {
    links.emplace_back(link, (seed + static_cast<std::uint64_t>(site)) * 0xd1342543de82ef95u);
  }
  return links;
}

class Star {
 public:
  Star(const StepTraffic& traffic, const LinkOptions& link, std::uint64_t seed)
      : traffic_(traffic),
        up_(make_links(traffic.sites, link, seed)),
        down_(make_links(traffic.sites, link, ~seed)) {}

  // From the beginnings of a step to its ends.
  void step(Times& clock) {
    for (double& time : clock) time += traffic_.compute_s;
    in_flight_.push_back(exchange(clock));
    if (in_flight_.size() <= static_cast<std::size_t>(traffic_.delay)) return;
    const Times& heard = in_flight_.front();
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], heard[i]);
    in_flight_.pop_front();
  }

 private:
  Times exchange(const Times& said) {
    double closed = 0.0;
    for (std::size_t i = 0; i < said.size(); ++i) {
      closed = std::max(closed, up_[i].arrival(said[i], traffic_.bytes_up));
    }
    Times heard;
    for (LinkModel& link : down_) heard.push_back(link.arrival(closed, traffic_.bytes_down));
    return heard;
  }

  StepTraffic traffic_;
  std::vector<LinkModel> up_;
  std::vector<LinkModel> down_;
  std::deque<Times> in_flight_;  // when each round will be heard, oldest first
};

class Ring {
 public:
  Ring(const StepTraffic& traffic, const LinkOptions& link, std::uint64_t seed)
      : traffic_(traffic), links_(make_links(traffic.sites, link, seed)) {}

  void step(Times& clock) {
    const int phases = 2 * (traffic_.sites - 1);
    for (double& time : clock) time += traffic_.compute_s;
    for (int phase = 0; phase < phases; ++phase) {
      Times arrived = clock;
      for (std::size_t i = 0; i < clock.size(); ++i) {
        arrived[i] = links_[i].arrival(clock[i], traffic_.bytes_up / phases);
      }
      for (std::size_t i = 0; i < clock.size(); ++i) {
        clock[(i + 1) % clock.size()] = std::max(clock[(i + 1) % clock.size()], arrived[i]);
      }
    }
  }

 private:
  StepTraffic traffic_;
  std::vector<LinkModel> links_;
};

template <class Shape>
double mean_step_s(Shape shape, const StepTraffic& traffic, int steps) {
  // Ends repeat with a period of delay + 1 steps; a mean over whole periods has no remainder.
  const int period = traffic.delay + 1;
  const int measured = (std::max(steps, 1) + period - 1) / period * period;
  Times clock(static_cast<std::size_t>(traffic.sites), 0.0);
  auto latest = [&] { return *std::max_element(clock.begin(), clock.end()); };
  for (int i = 0; i < kWarmUpSteps + 4 * period; ++i) shape.step(clock);
  const double begun = latest();
  for (int i = 0; i < measured; ++i) shape.step(clock);
  return (latest() - begun) / measured;
}

}  // namespace

double modelled_step_s(const StepTraffic& traffic, const LinkOptions& link, std::uint64_t seed,
                       int steps) {
  link.validate();
  TW_CHECK(traffic.sites >= 1 && traffic.delay >= 0);
  bool silent = traffic.bytes_up <= 0 && (traffic.ring || traffic.bytes_down <= 0);
  if (traffic.sites == 1 || silent) return traffic.compute_s;
  if (traffic.ring) return mean_step_s(Ring(traffic, link, seed), traffic, steps);
  return mean_step_s(Star(traffic, link, seed), traffic, steps);
}

}  // namespace thinwire
