// What must not harm a run between processes, each as a scenario with its length as a knob: long
// ones are figures (bench/far_faults_bench.cc), short ones are tests. Random moments come from the
// seed. What goes on is told on standard error.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/far_fleet.h"

namespace thinwire::test {

struct FaultReport {
  std::vector<std::string> failures;  // empty: as promised
  nlohmann::json beside = nlohmann::json::object();
};

// kill -9 of one of four sites, each time in a run of its own: the others close the round soon, go
// on and end with equal states.
struct KillSitesOptions {
  int moments = 50;
  double slack_s = 1.0;  // above the peer timeout
  std::uint64_t seed = 1;
};
FaultReport kill_sites(const KillSitesOptions& options);

struct KillHubOptions {
  int moments = 20;  // all in one run
  double down_min_s = 1.0;
  double down_max_s = 10.0;
  std::string method = "distro";
  std::string delay = "1";
  bool all_in = true;  // a site that is left out of a round, as on a busy machine, is a failure
  std::uint64_t seed = 1;
};
// kill -9 of the hub, which comes back: no step is lost, and when nobody is left out of a round the
// run ends with the state of one that was not disturbed.
// A method that speaks in every fifth step, on 3 sites: one is killed and comes back between two
// rounds, one freezes, then the hub is killed and comes back; with `min_sites` 3 the run stands
// still meanwhile.
FaultReport speak_rarely(int delay, int min_sites);

FaultReport kill_hub(const KillHubOptions& options);

struct BadLinkOptions {
  int sites_cut = 1;  // of four
  double seconds = 10.0;
  int step_ms = 200;
  double peer_timeout_s = 3.0;
  bool vanish = false;   // packets vanish, or wait
  bool proxies = false;  // what stands in where there are no namespaces
};
// The links of some sites are bad for a while, then good: one history, nothing lost or doubled.
FaultReport bad_link(const BadLinkOptions& options);

struct ChurnOptions {
  double seconds = 600.0;
  double every_s = 5.0;
  double peer_timeout_s = 2.0;
  bool joins = true;  // who was killed or left may come back, and up to eight sites take part
  std::uint64_t seed = 1;
};
// Every few seconds a random join, leave, kill or freeze: no two sites ever differ, and never does
// a run stand still for longer than twice the peer timeout.
FaultReport churn(const ChurnOptions& options);

// One bit of one parameter of one site is flipped: found, named by the others and repaired. Beside
// "rounds": how many it took.
FaultReport flip_a_bit(std::uint64_t step);

// Who does not belong to the run is refused soon, with the difference named at both ends, and the
// run does not notice.
FaultReport strangers(double within_s = 2.0);

}  // namespace thinwire::test
