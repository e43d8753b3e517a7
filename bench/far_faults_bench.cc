// The figures of the far link, between real processes: far_faults_bench NAME [--moments N]
// [--seconds S] [--seed S] [--no-joins] prints one JSON object with the value and what stands
// beside it; what goes on is told on standard error. Most take minutes.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/far_faults.h"
#include "thinwire/error.h"

namespace {

using namespace thinwire;
using namespace thinwire::test;
using nlohmann::json;

constexpr int kSites = 4;
constexpr double kPatience = 1200.0;  // s, for a whole run

void tell(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

struct Knobs {
  int moments = 0;  // 0: as many as the figure says
  double seconds = 0.0;
  std::uint64_t seed = 1;
  bool joins = true;
};

json from(const FaultReport& report) {
  json made = report.beside;
  made["value"] = report.failures.size();
  made["failures"] = report.failures;
  return made;
}

// ---- runs of the program

struct Training {
  std::string method;
  std::string lr;
  int steps;
  Words more;
};

Words train_words(const Training& training, const std::string& out) {
  Words words{THINWIRE_PROGRAM,
              "train",
              "--method",
              training.method,
              "--lr",
              training.method + "=" + training.lr,
              "--sites",
              std::to_string(kSites),
              "--steps",
              std::to_string(training.steps),
              "--eval-every",
              std::to_string(training.steps),
              "--eval-windows",
              "8",
              "--json",
              "--out",
              out};
  words.insert(words.end(), training.more.begin(), training.more.end());
  return words;
}

json result_of(Child& process, const std::string& out, const std::string& err) {
  if (process.wait(kPatience) != 0) throw Error("a run failed: " + file_text(err));
  return json::parse(file_text(out)).at(0);
}

json train_in_one_process(const Training& training) {
  const ScratchDir dir;
  Child process({.words = train_words(training, dir.path("out")),
                 .output = dir.path("json"),
                 .errors = dir.path("err")});
  return result_of(process, dir.path("json"), dir.path("err"));
}

// By site.
std::vector<json> train_in_processes(const Training& training, FarWire& wire) {
  const ScratchDir dir;
  Words hub{THINWIRE_PROGRAM, "hub", "--listen", wire.listen(), "--sites", std::to_string(kSites)};
  std::string hub_key;
  if (wire.needs_keys()) {
    hub_key = make_keys(dir, kSites);
    hub.insert(hub.end(), {"--keys", dir.path("hub.key"), "--allow", dir.path("sites.txt")});
  }
  const Child hub_process(
      {.words = hub, .errors = dir.path("hub.err"), .net_space = wire.hub_space()});
  std::vector<std::unique_ptr<Child>> sites;
  for (int site = 0; site < kSites; ++site) {
    const std::string name = site_name(site);
    Words words = train_words(training, dir.path(name));
    words.insert(words.end(), {"--site", name, "--hub", wire.hub(site)});
    if (wire.needs_keys()) {
      words.insert(words.end(), {"--keys", dir.path(name + ".key"), "--hub-key", hub_key});
    }
    sites.push_back(std::make_unique<Child>(ChildOptions{.words = words,
                                                         .output = dir.path(name + ".json"),
                                                         .errors = dir.path(name + ".err"),
                                                         .net_space = wire.site_space(site)}));
  }
  std::vector<json> results;
  for (int site = 0; site < kSites; ++site) {
    const std::string name = site_name(site);
    results.push_back(result_of(*sites[site], dir.path(name + ".json"), dir.path(name + ".err")));
  }
  return results;
}

std::string first_line(const std::string& path) {
  const std::string text = file_text(path);
  return text.substr(0, text.find('\n'));
}

// ---- figures

json equal(const Knobs&) {
  json made{{"value", 0}};
  for (const Training& training :
       {Training{"distro:delay=1", "4e-3", 300, {}}, Training{"adamw", "1.6e-2", 300, {}}}) {
    const std::string expected = train_in_one_process(training).at("hash");
    tell(training.method + ", one process: " + expected);
    const auto wire = direct_wire();
    int differing = 0;
    for (const json& site : train_in_processes(training, *wire)) {
      differing += site.at("hash") != expected ? 1 : 0;
    }
    tell(training.method + ", " + std::to_string(differing) + " of 4 sites differ");
    made["value"] = made["value"].get<int>() + differing;
    made[training.method] = {{"hash", expected}, {"sites_that_differ", differing}};
  }
  return made;
}

constexpr int kContext = 64;   // bytes of a window
constexpr int kWindows = 768;  // of a step: it takes longer than the exchange

struct StepTime {
  double wall_s = 0.0;     // evaluations apart, at the slowest site
  double compute_s = 0.0;  // CPU time of one site
};

StepTime measure(const Training& training, FarWire& wire) {
  StepTime step;
  for (const json& site : train_in_processes(training, wire)) {
    const double bytes = static_cast<double>(kWindows) * kContext;
    step.wall_s = std::max(step.wall_s, bytes / site.at("tokens_per_s").get<double>());
    step.compute_s = std::max(step.compute_s, site.at("compute_s").get<double>());
  }
  tell(training.method + " over " + wire.what() + ": " + std::to_string(step.wall_s) +
       " s a step, " + std::to_string(step.compute_s) + " s of it computing");
  return step;
}

// The same with a toy model and a pause in the place of computing, which leaves the processor free:
// what is above the pause is the link's.
double paused_step_s(FarWire& wire) {
  constexpr std::uint64_t kFirst = 5;
  constexpr std::uint64_t kSteps = 60;
  Fleet fleet(wire, {.steps = kSteps, .step_ms = 250, .peer_timeout_s = 10.0});
  fleet.start_hub();
  fleet.start_sites();
  for (const std::string& fault : fleet.wait_for_end({0, 1, 2, 3}, kPatience)) throw Error(fault);
  const auto& steps = fleet.log(0).steps;
  return (steps.rbegin()->second.at_s - steps.at(kFirst).at_s) / (kSteps - 1 - kFirst);
}

// The machine's other work makes a run slower, never faster: the best of many short ones, in turn.
json slow_link(const Knobs& knobs) {
  const LabLink link{.round_trip_ms = 100.0, .rate_mbit = 10.0, .queue_ms = 200.0};
  const Words size{"--batch", std::to_string(kWindows), "--set",
                   "model.context=" + std::to_string(kContext)};
  const Training distro{"distro:delay=1", "4e-3", 12, size};
  const Training adamw{"adamw", "1.6e-2", 12, size};
  StepTime loopback{.wall_s = 1e9};
  StepTime slow{.wall_s = 1e9};
  const auto faster = [](const StepTime& a, const StepTime& b) {
    return a.wall_s < b.wall_s ? a : b;
  };
  for (int turn = 0; turn < (knobs.moments > 0 ? knobs.moments : 8); ++turn) {
    loopback = faster(loopback, measure(distro, *direct_wire()));
    slow = faster(slow, measure(distro, *slow_wire(kSites, link)));
  }
  const auto wire = slow_wire(kSites, link);
  const double dense = faster(measure(adamw, *wire), measure(adamw, *wire)).wall_s;
  const double paused = paused_step_s(*direct_wire());
  const double paused_slow = paused_step_s(*slow_wire(kSites, link));
  return {{"value", (slow.wall_s / loopback.wall_s - 1.0) * 100.0},
          {"loopback_step_s", loopback.wall_s},
          {"slow_step_s", slow.wall_s},
          {"compute_s", slow.compute_s},
          {"adamw_slow_step_s", dense},
          {"adamw_over_distro", dense / slow.wall_s},
          {"paused_percent", (paused_slow / paused - 1.0) * 100.0},
          {"paused_step_s", paused},
          {"paused_slow_step_s", paused_slow},
          {"wire", wire->what()},
          {"congestion_control", first_line("/proc/sys/net/ipv4/tcp_congestion_control")}};
}

json kill_sites_figure(const Knobs& knobs) {
  return from(kill_sites({.moments = knobs.moments > 0 ? knobs.moments : 50, .seed = knobs.seed}));
}

json kill_hub_figure(const Knobs& knobs) {
  json made =
      from(kill_hub({.moments = knobs.moments > 0 ? knobs.moments : 20, .seed = knobs.seed}));
  // Where the hub adds up itself.
  json dense = from(kill_hub({.moments = 5, .method = "adamw", .delay = "", .seed = knobs.seed}));
  made["value"] = made["value"].get<int>() + dense["value"].get<int>();
  made["adamw"] = std::move(dense);
  return made;
}

// Several of one kind; what stands beside each is kept under its name.
json all_of(const std::vector<std::pair<std::string, BadLinkOptions>>& cases) {
  json made{{"value", 0}};
  for (const auto& [name, options] : cases) {
    tell(name);
    made[name] = from(bad_link(options));
    made["value"] = made["value"].get<int>() + made[name]["value"].get<int>();
  }
  return made;
}

// Once so short that the hub has patience with the site, once so long that it is taken for dead.
json freeze(const Knobs& knobs) {
  const double seconds = knobs.seconds > 0.0 ? knobs.seconds : 10.0;
  return all_of({{"patient", {.seconds = seconds, .peer_timeout_s = 3.0 * seconds}},
                 {"taken_for_dead", {.seconds = seconds, .peer_timeout_s = 0.3 * seconds}}});
}

// Sites that come back within the rounds that the hub keeps, and beyond them.
json partition(const Knobs& knobs) {
  const double seconds = knobs.seconds > 0.0 ? knobs.seconds : 30.0;
  BadLinkOptions options{.sites_cut = 2, .seconds = seconds, .vanish = true};
  options.step_ms = static_cast<int>(seconds * 1e3 / 40.0);
  BadLinkOptions beyond = options;
  beyond.step_ms = static_cast<int>(seconds * 1e3 / 200.0);
  return all_of({{"within_the_window", options}, {"beyond_the_window", beyond}});
}

json churn_figure(const Knobs& knobs) {
  return from(churn({.seconds = knobs.seconds > 0.0 ? knobs.seconds : 600.0,
                     .joins = knobs.joins,
                     .seed = knobs.seed}));
}

// The value is how long it took; a site that stays different has no value.
json flip(const Knobs&) {
  json made = from(flip_a_bit(30));
  made["value"] = made["failures"].empty() ? made["rounds"] : json(nullptr);
  return made;
}

json strangers_figure(const Knobs&) { return from(strangers()); }

const std::map<std::string, std::function<json(const Knobs&)>> kFigures = {
    {"far_equal", equal},
    {"far_slow_link", slow_link},
    {"far_kill_site", kill_sites_figure},
    {"far_kill_hub", kill_hub_figure},
    {"far_freeze", freeze},
    {"far_partition", partition},
    {"far_churn", churn_figure},
    {"far_flip", flip},
    {"far_strangers", strangers_figure}};

Knobs parse(const Words& words) {
  Knobs knobs;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--no-joins") {
      knobs.joins = false;
      continue;
    }
    if (i + 1 == words.size()) throw UsageError(words[i] + " needs a value");
    const std::string& value = words[i + 1];
    if (words[i] == "--moments") {
      knobs.moments = std::stoi(value);
    } else if (words[i] == "--seconds") {
      knobs.seconds = std::stod(value);
    } else if (words[i] == "--seed") {
      knobs.seed = std::stoull(value);
    } else {
      throw UsageError("unknown flag " + words[i]);
    }
    ++i;
  }
  return knobs;
}

}  // namespace

int main(int argc, char** argv) {
  const auto figure = argc < 2 ? kFigures.end() : kFigures.find(argv[1]);
  if (figure == kFigures.end()) {
    std::cerr
        << "far_faults_bench NAME [--moments N] [--seconds S] [--seed S] [--no-joins]; names:";
    for (const auto& [name, measure] : kFigures) std::cerr << " " << name;
    std::cerr << "\n";
    return 2;
  }
  try {
    std::cout << figure->second(parse({argv + 2, argv + argc})) << "\n";
  } catch (const std::exception& error) {
    std::cerr << "far_faults_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
