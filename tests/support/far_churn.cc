#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "tests/support/far_faults.h"

namespace thinwire::test {
namespace {

constexpr int kSitesMax = 8;
constexpr int kSitesMin = 2;  // that run and are not frozen
constexpr double kPatience = 60.0;

enum class Life { absent, running, frozen };

class Churn {
 public:
  explicit Churn(const ChurnOptions& options)
      : options_(options),
        sites_(options.joins ? kSitesMax : 4),
        random_(options.seed),
        wire_(direct_wire()),
        fleet_(*wire_, {.sites = sites_,
                        .steps = 1'000'000'000,
                        .step_ms = 20,
                        .peer_timeout_s = options.peer_timeout_s,
                        .hub_flags = options.joins ? Words{"--min-sites", "2"} : Words{}}),
        lives_(sites_, Life::absent),
        thaw_at_(sites_, 0.0) {}

  FaultReport go() {
    fleet_.start_hub();
    for (int site = 0; site < 4; ++site) start(site);
    if (!fleet_.wait_for_step(0, 20, kPatience)) {
      fail("the run does not begin; " + fleet_.site_errors(0));
      return report_;
    }
    const double begin = monotonic_s();
    // After a tenth, when all buffers have been used.
    const double warm = begin + options_.seconds / 10.0;
    double next = begin + options_.every_s;
    while (monotonic_s() < begin + options_.seconds) {
      thaw_the_due();
      watch();
      if (memory_begin_.is_null() && monotonic_s() > warm) memory_begin_ = memory();
      if (monotonic_s() >= next) {
        next += options_.every_s;
        something_happens();
      }
      pause_ms(20);
    }
    finish();
    return report_;
  }

 private:
  void tell(const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    ++events_;
  }
  void fail(const std::string& line) {
    report_.failures.push_back(line);
    std::fprintf(stderr, "  FAILURE %s\n", line.c_str());
  }

  void start(int site) {
    fleet_.start_site(site);
    lives_[site] = Life::running;
  }
  int count(Life life) const {
    return static_cast<int>(std::count(lives_.begin(), lives_.end(), life));
  }
  int any(Life life) {
    int skip = static_cast<int>(random_() % count(life));
    for (int site = 0; site < sites_; ++site) {
      if (lives_[site] == life && skip-- == 0) return site;
    }
    return -1;
  }

  void something_happens() {
    std::vector<std::function<void()>> possible;
    const bool spare = count(Life::running) > kSitesMin;
    if (options_.joins && count(Life::absent) > 0) possible.push_back([this] { join(); });
    // Without joins those who go are gone for good.
    if (spare && options_.joins) {
      possible.push_back([this] { leave(); });
      possible.push_back([this] { kill(); });
    }
    if (spare) possible.push_back([this] { freeze(); });
    if (!possible.empty()) possible[random_() % possible.size()]();
  }
  void join() {
    const int site = any(Life::absent);
    tell(site_name(site) + " joins");
    start(site);
  }
  void leave() {
    const int site = any(Life::running);
    tell(site_name(site) + " leaves");
    fleet_.site(site).signal(SIGTERM);
    if (fleet_.site(site).wait(5.0) != 0) fail(site_name(site) + " does not leave within 5 s");
    lives_[site] = Life::absent;
  }
  void kill() {
    const int site = any(Life::running);
    tell(site_name(site) + " is killed");
    fleet_.site(site).kill();
    lives_[site] = Life::absent;
  }
  void freeze() {
    const int site = any(Life::running);
    // Without joins nobody gets over more rounds than the hub keeps.
    const double most = options_.joins ? options_.every_s : 0.5;
    const double lasts = 0.3 + static_cast<double>(random_() % 1000) / 1000.0 * most;
    tell(site_name(site) + " is frozen for " + std::to_string(lasts) + " s");
    fleet_.site(site).signal(SIGSTOP);
    lives_[site] = Life::frozen;
    thaw_at_[site] = monotonic_s() + lasts;
  }
  void thaw_the_due() {
    for (int site = 0; site < sites_; ++site) {
      if (lives_[site] != Life::frozen || monotonic_s() < thaw_at_[site]) continue;
      fleet_.site(site).signal(SIGCONT);
      lives_[site] = Life::running;
    }
  }

  // Does anybody still get on, and does everybody live?
  void watch() {
    for (int site = 0; site < sites_; ++site) {
      if (lives_[site] == Life::absent) continue;
      const std::uint64_t done = fleet_.log(site).steps_done();
      if (done > farthest_) {
        farthest_ = done;
        stalled_ = false;
        moved_ = monotonic_s();
      }
      if (lives_[site] == Life::running && !fleet_.site(site).running()) {
        fail(site_name(site) + " ended: " + fleet_.site_errors(site));
        lives_[site] = Life::absent;
      }
    }
    const double still = moved_ == 0.0 ? 0.0 : monotonic_s() - moved_;
    longest_stall_ = std::max(longest_stall_, still);
    if (still > 2.0 * options_.peer_timeout_s && !stalled_) {
      stalled_ = true;
      fail("nobody has made a step for " + std::to_string(still) + " s");
    }
  }

  nlohmann::json memory() {
    const int running = sites_ - count(Life::absent);
    return {{"hub_mib", fleet_.hub().memory_mib()},
            {"site_mib", fleet_.memory_mib() / std::max(running, 1)}};
  }

  void finish() {
    for (double& at : thaw_at_) at = 0.0;
    thaw_the_due();
    const nlohmann::json memory_end = memory();
    for (int site = 0; site < sites_; ++site) {
      if (lives_[site] == Life::absent) continue;
      fleet_.site(site).signal(SIGTERM);
      // A hub that is alone with a frozen one waits for it as long as for any dead one.
      if (!fleet_.site(site).wait(5.0 + 2.0 * options_.peer_timeout_s)) {
        fail(site_name(site) + " does not leave");
      }
    }
    for (const std::string& fault : audit(fleet_.logs())) fail(fault);
    report_.beside = {{"seconds", options_.seconds},       {"events", events_},
                      {"joins", options_.joins},           {"steps", farthest_},
                      {"longest_stall_s", longest_stall_}, {"memory_begin", memory_begin_},
                      {"memory_end", memory_end}};
  }

  const ChurnOptions options_;
  const int sites_;
  std::mt19937_64 random_;
  std::unique_ptr<FarWire> wire_;
  Fleet fleet_;
  std::vector<Life> lives_;
  std::vector<double> thaw_at_;
  FaultReport report_;
  nlohmann::json memory_begin_;
  int events_ = 0;
  std::uint64_t farthest_ = 0;
  double moved_ = 0.0;
  double longest_stall_ = 0.0;
  bool stalled_ = false;
};

}  // namespace

FaultReport churn(const ChurnOptions& options) { return Churn(options).go(); }

}  // namespace thinwire::test
