#include "apps/timeouts_command.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/hub_command.h"
#include "apps/site_command.h"
#include "thinwire/error.h"
#include "transports/timeouts_internal.h"

namespace thinwire::app {
namespace {

using namespace timeouts;

// To the millisecond.
std::string text(double seconds) {
  return fmt::format("{:.8g} s", std::round(seconds * 1000.0) / 1000.0);
}

// What both ends do with a connection.
void add_connection(std::vector<Timeout>& all, double peer) {
  all.push_back({"handshake_s", "a handshake is given up", kHandshake, "fixed"});
  all.push_back({"heartbeat_each_s", "ZeroMQ's heartbeat", heartbeat_each(peer),
                 "peer timeout / 3, 0.1 to 5 s"});
  all.push_back({"heartbeat_patience_s", "a connection without any is closed",
                 heartbeat_patience(peer), "peer timeout x 6, from 60 s"});
}

}  // namespace

std::chrono::milliseconds milliseconds_of(const char* flag, double seconds) {
  if (!(seconds >= kKnobMin && seconds <= kKnobMax)) {
    throw UsageError(
        fmt::format("{} lies between 0.1 and 86400 seconds, not {:.6g}", flag, seconds));
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

void check_timeouts(const SiteCommand& command) {
  milliseconds_of("--connect-timeout", command.connect_timeout_s);
  milliseconds_of("--peer-timeout", command.peer_timeout_s);
  milliseconds_of("--hub-timeout", command.hub_timeout_s);
  if (command.hub_timeout_s < command.peer_timeout_s) {
    throw UsageError(fmt::format(
        "--hub-timeout {} contradicts --peer-timeout {}: a hub is taken for dead only after the "
        "latter, and the former lets the site look for another one",
        text(command.hub_timeout_s), text(command.peer_timeout_s)));
  }
}

void check_timeouts(const HubCommand& command) {
  milliseconds_of("--peer-timeout", command.peer_timeout_s);
  milliseconds_of("--round-deadline", command.round_deadline_s);
  const double sound = shortest_sound_deadline(command.peer_timeout_s);
  if (command.round_deadline_s < sound) {
    throw UsageError(
        fmt::format("--round-deadline {} contradicts --peer-timeout {}: a site gives a sign of "
                    "life every {}, a "
                    "quarter of the latter, and no round is shorter",
                    text(command.round_deadline_s), text(command.peer_timeout_s), text(sound)));
  }
}

std::vector<Timeout> timeouts_of(const SiteCommand& command) {
  const double peer = command.peer_timeout_s;
  std::vector<Timeout> all = {
      {"peer_timeout_s", "the one knob", peer, "--peer-timeout"},
      {"connect_timeout_s", "the run has not begun: the site gives up", command.connect_timeout_s,
       "--connect-timeout"},
      {"hub_timeout_s", "no hub is left: the site gives up", command.hub_timeout_s,
       "--hub-timeout"},
      {"hub_dead_s", "a silent hub is taken for dead", hub_dead(peer), "peer timeout"},
      {"ping_each_s", "sign of life of a site", ping_each(peer), "peer timeout / 4"},
      {"repeat_each_s", "what has no answer is sent again", repeat_each(peer), "peer timeout"},
      {"hello_each_s", "hello of a site that is not in", kHelloEach, "fixed"},
      {"dial_s", "an attempt to connect is given up", dial_patience(peer),
       "peer timeout, 1 to 10 s"},
      {"pause_first_s", "pause before the next attempt, at first", kPauseFirst, "fixed, doubles"},
      {"pause_max_s", "the same, at most", kPauseMax, "fixed"},
      {"goodbye_s", "last words of a site, at most", kGoodbye, "fixed"}};
  add_connection(all, peer);
  return all;
}

std::vector<Timeout> timeouts_of(const HubCommand& command) {
  const double peer = command.peer_timeout_s;
  std::vector<Timeout> all = {
      {"peer_timeout_s", "the one knob", peer, "--peer-timeout"},
      {"round_deadline_s", "a round closes at the latest", command.round_deadline_s,
       "--round-deadline"},
      {"round_deadline_min_s", "a round waits for the late at least",
       round_deadline_min(command.round_deadline_s), "round deadline, 1 s or less"},
      {"site_dead_s", "a silent site is taken for dead", site_dead(peer), "peer timeout"},
      {"ping_each_s", "sign of life expected of a site", ping_each(peer), "peer timeout / 4"},
      {"restart_wait_s", "a restarted hub waits for its sites", restart_wait(peer), "peer timeout"},
      {"own_stall_s", "a stall of the hub that is its own fault", own_stall(peer),
       "peer timeout / 4, 1 s or less"},
      {"missing_each_s", "another site is asked for a result", kMissingEach, "fixed"}};
  add_connection(all, peer);
  return all;
}

std::string timeouts_table(const std::vector<Timeout>& timeouts) {
  std::string lines;
  for (const Timeout& one : timeouts) {
    lines += fmt::format("{:<41}{:>8}  {}\n", one.what, text(one.seconds), one.from);
  }
  return lines;
}

std::string timeouts_json(const std::vector<Timeout>& timeouts) {
  nlohmann::ordered_json json;
  for (const Timeout& one : timeouts) json[one.key] = one.seconds;
  return json.dump(2) + "\n";
}

}  // namespace thinwire::app
