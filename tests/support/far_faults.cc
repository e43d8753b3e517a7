#include "tests/support/far_faults.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>

#include "optimizers/catalog.h"
#include "tests/support/site_run.h"

namespace thinwire::test {
namespace {

constexpr double kPatience = 60.0;  // s, for what should take a few

void tell(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

void add(std::vector<std::string>& to, const std::vector<std::string>& from,
         const std::string& what = "") {
  for (const std::string& one : from) {
    to.push_back(what.empty() ? one : what + ": " + one);
    tell("  FAILURE " + to.back());
  }
}

// The longest time between two steps of a site of which the later ended after `begin`.
double longest_gap(const SiteLog& log, double begin) {
  double longest = 0.0;
  double before = -1.0;
  for (const auto& [step, done] : log.steps) {
    if (before >= 0.0 && done.at_s > begin) longest = std::max(longest, done.at_s - before);
    before = done.at_s;
  }
  return longest;
}

bool learned(const SiteLog& log) {
  return log.steps.size() > 1 && log.steps.rbegin()->second.loss < log.steps.begin()->second.loss;
}

std::vector<int> all_but(int sites, int one) {
  std::vector<int> others;
  for (int site = 0; site < sites; ++site) {
    if (site != one) others.push_back(site);
  }
  return others;
}

// Gives the longest time for which the others stood still.
double kill_one_site(const std::string& moment, double slack_s, std::mt19937_64& random,
                     FaultReport& report) {
  const auto below = [&](int count) { return static_cast<int>(random() % count); };
  const auto wire = direct_wire();
  const FleetOptions options{.steps = 90, .step_ms = 12, .peer_timeout_s = 1.0};
  Fleet fleet(*wire, options);
  const int victim = below(options.sites);
  const auto step = static_cast<std::uint64_t>(5 + below(50));
  const std::string what = moment + ", " + site_name(victim) + " at step " + std::to_string(step);
  fleet.start_hub();
  fleet.start_sites();
  if (!fleet.wait_for_step(victim, step, kPatience)) {
    add(report.failures, {"the run does not get there"}, what);
    return 0.0;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(below(15'000)));
  const double killed = monotonic_s();
  fleet.site(victim).kill();
  add(report.failures, fleet.wait_for_end(all_but(options.sites, victim), kPatience), what);
  add(report.failures, audit(fleet.logs()), what);
  double longest = 0.0;
  for (int site : all_but(options.sites, victim)) {
    longest = std::max(longest, longest_gap(fleet.log(site), killed));
    if (!learned(fleet.log(site))) {
      add(report.failures, {site_name(site) + " did not go on learning"}, what);
    }
  }
  if (longest > options.peer_timeout_s + slack_s) {
    add(report.failures, {"a round took " + std::to_string(longest) + " s"}, what);
  }
  tell(what + ": the others stood still for " + std::to_string(longest) + " s");
  return longest;
}

// What four threads over loopback end with.
std::uint64_t undisturbed_state(const FleetOptions& options) {
  SiteRunOptions run;
  run.world = {.sites = options.sites};
  run.steps = options.steps;
  run.optimizer = [&] {
    std::map<std::string, std::string> set;
    if (!options.delay.empty()) set["delay"] = options.delay;
    Settings settings(options.method, set);
    return optimizer_catalog().make(options.method, settings);
  };
  return run_sites(run)[0].hash;
}

}  // namespace

FaultReport kill_sites(const KillSitesOptions& options) {
  FaultReport report;
  std::mt19937_64 random(options.seed);
  double longest = 0.0;
  for (int i = 0; i < options.moments; ++i) {
    longest = std::max(
        longest, kill_one_site("moment " + std::to_string(i), options.slack_s, random, report));
  }
  report.beside = {
      {"moments", options.moments}, {"longest_round_s", longest}, {"peer_timeout_s", 1.0}};
  return report;
}

FaultReport speak_rarely(int delay, int min_sites) {
  FaultReport report;
  const auto wire = direct_wire();
  Fleet fleet(*wire, {.sites = 3,
                      .steps = 160,
                      .step_ms = 20,
                      .peer_timeout_s = 1.0,
                      .method = "rarely",
                      .delay = std::to_string(delay),
                      .hub_flags = {"--min-sites", std::to_string(min_sites)}});
  fleet.start_hub();
  fleet.start_sites();
  const auto reach = [&](int site, std::uint64_t step) {
    if (fleet.wait_for_step(site, step, kPatience)) return;
    add(report.failures, {site_name(site) + " does not get to step " + std::to_string(step)});
  };
  reach(2, 22);  // rounds are in steps 19 and 24
  fleet.site(2).kill();
  if (min_sites < 3) reach(0, 32);
  fleet.start_site(2);
  reach(2, 62);
  fleet.site(1).signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  fleet.site(1).signal(SIGCONT);
  reach(1, 112);
  fleet.kill_hub();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  fleet.start_hub();
  add(report.failures, fleet.wait_for_end({0, 1, 2}, kPatience));
  add(report.failures, audit(fleet.logs()));
  if (fleet.hub_log().find("refused (ahead") != std::string::npos) {
    add(report.failures, {"rounds are numbered with gaps"});
  }
  if (fleet.log(2).taken_over.empty()) add(report.failures, {"the state was not taken over"});
  // A site that is well takes part in nearly all rounds: 32 of 160 steps speak.
  std::size_t spoken = 0, left_out = 0;
  for (const auto& [step, updates] : fleet.log(0).heard) {
    if ((step + 1) % 5 != 0) continue;
    ++spoken;
    left_out += updates.contains(fleet.log(0).number) ? 0 : 1;
  }
  if (spoken + 2 < 32 || left_out > 2) {
    add(report.failures, {site_name(0) + " was left out of " + std::to_string(left_out) + " of " +
                          std::to_string(spoken) + " rounds"});
  }
  return report;
}

FaultReport kill_hub(const KillHubOptions& options) {
  constexpr int kApart = 25;  // steps
  FaultReport report;
  std::mt19937_64 random(options.seed);
  const auto wire = direct_wire();
  const FleetOptions fleet_options{
      .steps = static_cast<std::uint64_t>(options.moments + 1) * kApart,
      .step_ms = 12,
      .peer_timeout_s = 5.0,
      .method = options.method,
      .delay = options.delay};
  Fleet fleet(*wire, fleet_options);
  fleet.start_hub();
  fleet.start_sites();
  double longest = 0.0;
  for (int moment = 0; moment < options.moments; ++moment) {
    const std::uint64_t step = moment * kApart + 5 + random() % (kApart - 5);
    if (!fleet.wait_for_step(0, step, kPatience)) {
      add(report.failures, {"the run does not get to step " + std::to_string(step)});
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    fleet.kill_hub();
    const double down =
        std::uniform_real_distribution<double>(options.down_min_s, options.down_max_s)(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(down));
    const std::uint64_t done = fleet.log(0).steps_done();
    fleet.start_hub();
    const double back = monotonic_s();
    fleet.wait_for_step(0, done + 1, kPatience);
    longest = std::max(longest, monotonic_s() - back);
    tell("moment " + std::to_string(moment) + ": step " + std::to_string(step) + ", down for " +
         std::to_string(down) + " s, going on after " + std::to_string(monotonic_s() - back) +
         " s");
  }
  add(report.failures, fleet.wait_for_end({0, 1, 2, 3}, kPatience));
  add(report.failures, audit(fleet.logs()));
  int left_out = 0;
  for (const auto& [round, updates] : fleet.log(0).heard) left_out += updates.size() != 4 ? 1 : 0;
  if (left_out > 0 && options.all_in) {
    add(report.failures, {std::to_string(left_out) + " rounds without some site"});
  }
  if (left_out == 0 && fleet.log(0).end != undisturbed_state(fleet_options)) {
    add(report.failures, {"another state than that of an undisturbed run"});
  }
  report.beside = {{"moments", options.moments},
                   {"longest_return_s", longest},
                   {"rounds_without_some_site", left_out}};
  return report;
}

FaultReport bad_link(const BadLinkOptions& options) {
  constexpr int kBefore = 10;  // steps before and after
  FaultReport report;
  const LabLink link{.round_trip_ms = 20.0, .rate_mbit = 100.0};
  const auto wire = options.proxies ? proxy_wire(4, link) : slow_wire(4, link);
  const auto lasts = static_cast<std::uint64_t>(options.seconds * 1e3 / options.step_ms);
  Fleet fleet(*wire, {.steps = lasts + kBefore + 30,
                      .step_ms = options.step_ms,
                      .peer_timeout_s = options.peer_timeout_s});
  fleet.start_hub();
  fleet.start_sites();
  if (!fleet.wait_for_step(0, kBefore, kPatience)) {
    add(report.failures, {"the run does not begin"});
    return report;
  }
  const double begin = monotonic_s();
  for (int site = 4 - options.sites_cut; site < 4; ++site) {
    options.vanish ? wire->drop(site) : wire->freeze(site);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const std::uint64_t behind = fleet.log(0).steps_done() - fleet.log(3).steps_done();
  tell("bad for " + std::to_string(options.seconds) + " s; site-a did " +
       std::to_string(fleet.log(0).steps_done()) + " steps, site-d " +
       std::to_string(fleet.log(3).steps_done()));
  for (int site = 4 - options.sites_cut; site < 4; ++site) {
    options.vanish ? wire->pass(site) : wire->thaw(site);
  }
  add(report.failures, fleet.wait_for_end({0, 1, 2, 3}, kPatience + 2.0 * options.seconds));
  add(report.failures, audit(fleet.logs()));
  std::size_t taken_back = 0;
  for (const SiteLog& log : fleet.logs()) taken_back += log.unheard.size();
  report.beside = {{"wire", wire->what()},
                   {"seconds", options.seconds},
                   {"rounds_behind", behind},
                   {"taken_back", taken_back},
                   {"missed_by_site_d", fleet.log(3).missed.size()},
                   {"longest_step_of_the_others_s", longest_gap(fleet.log(0), begin)}};
  return report;
}

FaultReport flip_a_bit(std::uint64_t step) {
  constexpr int kFlipped = 2;
  FaultReport report;
  const auto wire = direct_wire();
  Fleet fleet(*wire, {.steps = step + 40, .step_ms = 12, .peer_timeout_s = 5.0});
  fleet.start_hub();
  for (int site = 0; site < 4; ++site) {
    fleet.start_site(site,
                     site == kFlipped ? Words{"--flip-at-step", std::to_string(step)} : Words{});
  }
  for (int site = 0; site < 4; ++site) fleet.site(site).wait(kPatience);
  const SiteLog& good = fleet.log(0);
  const SiteLog& bad = fleet.log(kFlipped);
  if (!bad.flipped) add(report.failures, {"no bit was flipped; " + fleet.site_errors(kFlipped)});
  int rounds = 0;
  for (const auto& [at, done] : bad.steps) {
    const auto same = good.steps.find(at);
    rounds += same != good.steps.end() && same->second.state != done.state ? 1 : 0;
  }
  std::uint64_t named = 0;
  for (const auto& [at, sites] : good.diverged) {
    if (sites.contains(kFlipped) && named == 0) named = at;
  }
  if (named == 0) add(report.failures, {"nobody named the site"});
  if (!good.end || good.end != bad.end) add(report.failures, {"not repaired at the end"});
  report.beside = {{"rounds", rounds}, {"flipped_at", step}, {"named_at", named}};
  return report;
}

}  // namespace thinwire::test
