// audited_site --site NAME --hub tcp://HOST:PORT [--FLAG VALUE ...]
// A site that trains a toy model over the far link and prints, a line each, what an audit of the
// whole run needs (site_log.h reads it), before or after the fact in such a way that a process
// killed at any moment has not concealed anything:
//   site NUMBER SITES           the run begins
//   said ROUND UPDATE           printed before anybody can hear it
//   heard ROUND NUMBER=UPDATE ...
//   unheard ROUND               what was said there is owed again
//   step STEP LOSS STATE TIME   after it: hash of the replicated state, seconds of the steady clock
//   took STEP                   before it the state of the other sites was taken over
//   missed STEP                 the step was caught up with, nothing was said in it
//   diverged STEP NUMBER ...    sites that held another state
//   flipped STEP                a bit of a parameter was flipped before that step (--flip-at-step)
//   end STATE                   all steps done
//   left STEP                   after SIGTERM
// Updates and states by their hashes, in hexadecimal digits.
#include <signal.h>

#include <atomic>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "optimizers/catalog.h"
#include "tests/support/audited_sync.h"
#include "tests/support/child.h"
#include "tests/support/rarely.h"
#include "tests/support/site_run.h"
#include "thinwire/error.h"
#include "thinwire/log.h"
#include "transports/zmq.h"
#include "transports/zmq_security_internal.h"

namespace {

using namespace thinwire;
using namespace thinwire::test;

std::atomic<bool> leaving = false;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

class Flags {
 public:
  explicit Flags(const std::vector<std::string>& words) {
    if (words.size() % 2 != 0) throw UsageError(words.back() + " needs a value");
    for (std::size_t i = 0; i < words.size(); i += 2) {
      if (!words[i].starts_with("--")) throw UsageError("no flag: " + words[i]);
      values_[words[i].substr(2)] = words[i + 1];
    }
  }
  std::string text(const std::string& flag, const std::string& otherwise = "") {
    const auto found = values_.find(flag);
    if (found == values_.end()) return otherwise;
    std::string value = found->second;
    values_.erase(found);
    return value;
  }
  double number(const std::string& flag, double otherwise) {
    const std::string given = text(flag);
    return given.empty() ? otherwise : std::stod(given);
  }
  void finish() const {
    if (!values_.empty()) throw UsageError("unknown flag --" + values_.begin()->first);
  }

 private:
  std::map<std::string, std::string> values_;
};

struct Options {
  ZmqLinkOptions link;
  std::uint64_t steps;
  int step_ms;
  std::string method;
  std::map<std::string, std::string> settings;
  double flip_at_step;
};

std::chrono::milliseconds seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1e3));
}

Options parse(Flags flags) {
  Options options;
  options.link.hubs = {flags.text("hub")};
  options.link.site = flags.text("site");
  options.link.run = flags.text("run", "run");
  options.link.hub_key = flags.text("hub-key");
  if (const std::string keys = flags.text("keys"); !keys.empty()) {
    options.link.keys = read_zmq_keys(keys);
  }
  options.link.peer_timeout = seconds(flags.number("peer-timeout", 10.0));
  options.link.connect_timeout = seconds(flags.number("connect-timeout", 30.0));
  options.link.hub_timeout = seconds(flags.number("hub-timeout", 120.0));
  options.steps = static_cast<std::uint64_t>(flags.number("steps", 100.0));
  options.step_ms = static_cast<int>(flags.number("step-ms", 10.0));
  options.method = flags.text("method", "distro");
  if (const std::string delay = flags.text("delay"); !delay.empty()) {
    options.settings["delay"] = delay;
  }
  options.flip_at_step = flags.number("flip-at-step", -1.0);
  flags.finish();
  return options;
}

class Printer final : public Witness {
 public:
  void said(std::uint64_t round, std::uint64_t update) override {
    say("said " + std::to_string(round) + " " + hex(update));
  }
  void heard(std::uint64_t round, const std::map<int, std::uint64_t>& updates) override {
    std::string line = "heard " + std::to_string(round);
    for (const auto& [site, update] : updates)
      line += " " + std::to_string(site) + "=" + hex(update);
    say(line);
  }
  void unheard(std::uint64_t round) override { say("unheard " + std::to_string(round)); }
  void resumed(std::uint64_t step) override { say("took " + std::to_string(step)); }
};

// A toy that takes its time; steps that are caught up with need no gradient and cost none.
class PausingModel final : public Model {
 public:
  PausingModel(int site, int pause) : toy_({.site = site}), pause_(pause) {}
  std::vector<ParameterSpec> parameters() const override { return toy_.parameters(); }
  void initialize(std::size_t index, std::uint64_t seed, Floats values) const override {
    toy_.initialize(index, seed, values);
  }
  float loss_and_grad(Units& units, const Step& step) override {
    pause_ms(pause_);
    return toy_.loss_and_grad(units, step);
  }

 private:
  ToyModel toy_;
  int pause_;
};

void print(const StepReport& report, std::uint64_t state) {
  const std::string step = std::to_string(report.index);
  if (report.caught_up) say("missed " + step);
  if (!report.diverged.empty()) {
    std::string line = "diverged " + step;
    for (int site : report.diverged) line += " " + std::to_string(site);
    say(line);
  }
  char rest[96];
  std::snprintf(rest, sizeof rest, " %.9g %016" PRIx64 " %.6f", static_cast<double>(report.loss),
                state, monotonic_s());
  say("step " + step + rest);
}

void flip_a_bit(Trainer& trainer) {
  float& value = trainer.shard().params()[trainer.shard().params().size() / 2];
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1u << 20);
  say("flipped " + std::to_string(trainer.steps_done()));
}

// Those of the library, and one that speaks rarely.
OptimizerCatalog methods() {
  OptimizerCatalog all = optimizer_catalog();
  all.add("rarely", "every fifth step", [](Settings& settings) {
    return std::make_unique<Rarely>(
        Rarely::Options{.delay = static_cast<int>(settings.integer("delay", 0, 0, 8))});
  });
  return all;
}

void run(const Options& options) {
  Settings settings(options.method, options.settings);
  const auto optimizer = methods().make(options.method, settings);
  const Traits traits = optimizer->traits();
  std::string agreed = "method = " + options.method + "\n";
  for (const auto& [key, value] : options.settings) agreed += key + " = " + value + "\n";
  ZmqLinkOptions where = options.link;
  where.stop = &leaving;
  ZmqLink link(where, hash64(std::string_view(agreed)), agreed);
  say("site " + std::to_string(link.site()) + " " + std::to_string(link.sites()));
  std::unique_ptr<Sync> sync;
  if (traits.meeting == Meeting::reduce) {
    sync = std::make_unique<AllReduceSync>(link.collective(0));
  } else {
    sync = std::make_unique<DelayedSync>(link.exchange(0),
                                         DelayedSync::Options{.delay = traits.delay});
  }
  Printer printer;
  AuditedSync audited(std::move(sync), printer);
  LoopbackWorld near({});
  PausingModel model(link.site(), options.step_ms);
  Trainer trainer(
      model, near.near(0, 0), *optimizer, audited,
      {.schedule = SiteRunOptions{}.schedule, .sites = link.sites(), .states = &link.states(0)});
  while (trainer.steps_done() < options.steps && !leaving) {
    if (static_cast<double>(trainer.steps_done()) == options.flip_at_step) flip_a_bit(trainer);
    const StepReport report = trainer.step();
    print(report, trainer.state_hash());
  }
  if (leaving) return say("left " + std::to_string(trainer.steps_done()));
  say("end " + hex(trainer.state_hash()));
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = [](int) { leaving = true; };
  ::sigaction(SIGTERM, &action, nullptr);
  try {
    run(parse(Flags({argv + 1, argv + argc})));
  } catch (const Interrupted&) {
    say("left");
  } catch (const HubLost& error) {
    log(LogLevel::error, error.what());
    return 4;
  } catch (const std::exception& error) {
    log(LogLevel::error, error.what());
    return 1;
  }
  return 0;
}
