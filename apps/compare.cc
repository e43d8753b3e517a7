#include "apps/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <optional>

#include "apps/kjv.h"
#include "apps/machine.h"
#include "apps/near_nccl.h"
#include "apps/near_process.h"
#include "apps/out_dir.h"
#include "apps/progress.h"
#include "apps/runner.h"
#include "apps/stop.h"
#include "thinwire/device.h"
#include "thinwire/error.h"
#include "thinwire/link_model.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

double ring_bytes(std::uint64_t parameters, int sites) {
  return 2.0 * (sites - 1) / sites * sizeof(float) * static_cast<double>(parameters);
}

double ratio(double ring, double bytes) {
  return bytes > 0 ? ring / bytes : std::numeric_limits<double>::quiet_NaN();
}

// An all-reduce takes whichever is faster on this link: a ring, with the bytes that were counted,
// or sums made at a hub, one copy each way. Small models wait for the round trips of a ring.
double step_time(const RunOptions& options, const MethodResult& method, const RunResult& run) {
  StepTraffic traffic{.compute_s = method.compute_s,
                      .bytes_up = method.bytes_up,
                      .bytes_down = method.bytes_down,
                      .sites = options.sites,
                      .delay = run.traits.delay};
  if (run.traits.meeting != Meeting::reduce) {
    return modelled_step_s(traffic, options.link, options.seed);
  }
  traffic.ring = true;
  const double ring = modelled_step_s(traffic, options.link, options.seed);
  traffic.ring = false;
  traffic.bytes_up = traffic.bytes_down = static_cast<double>(run.parameters) * sizeof(float);
  return std::min(ring, modelled_step_s(traffic, options.link, options.seed));
}

// Sums of the seeds so far become means; times and bytes are the same story for each seed.
MethodResult summarize(const RunOptions& options, const MethodSpec& spec,
                       const std::vector<RunResult>& runs) {
  MethodResult method;
  method.method = spec.label;
  method.settings = describe(spec);
  const double count = static_cast<double>(runs.size());
  for (const RunResult& run : runs) {
    method.loss += run.curve.back().loss / count;
    method.bytes_up += run.bytes_up / count;
    method.bytes_down += run.bytes_down / count;
    method.compute_s += run.compute_s / count;
    method.tokens_per_s += run.tokens_per_s / count;
    method.times.add(run.times, 1.0 / count);
    method.peak_mb = std::max(method.peak_mb, run.peak_mb);
    method.skipped += run.skipped;
  }
  for (const RunResult& run : runs) {
    method.loss_sd += std::pow(run.curve.back().loss - method.loss, 2) / std::max(1.0, count - 1);
  }
  method.loss_sd = std::sqrt(method.loss_sd);
  const double ring = ring_bytes(runs[0].parameters, options.sites);
  method.ratio_up = ratio(ring, method.bytes_up);
  method.ratio_down = ratio(ring, method.bytes_down);
  method.step_s = step_time(options, method, runs[0]);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SeedResult seed;
    seed.seed = options.seed + i;
    seed.first_loss = runs[i].first_loss;
    seed.hash = fmt::format("{:016x}", runs[i].hash);
    for (const Evaluation& point : runs[i].curve) {
      seed.curve.push_back({point.step, point.loss, point.bytes_up,
                            static_cast<double>(point.step) * method.step_s});
    }
    method.seeds.push_back(std::move(seed));
  }
  return method;
}

// Modelled time at which the mean curve first falls to the target, straight lines between points.
std::optional<double> time_to(double target, const MethodResult& method) {
  std::optional<CurvePoint> before;
  for (std::size_t i = 0; i < method.seeds[0].curve.size(); ++i) {
    CurvePoint mean = method.seeds[0].curve[i];
    mean.loss = 0.0;
    for (const SeedResult& seed : method.seeds) {
      mean.loss += seed.curve[i].loss / static_cast<double>(method.seeds.size());
    }
    if (mean.loss <= target) {
      if (!before) return mean.modelled_s;
      const double share = (before->loss - target) / (before->loss - mean.loss);
      return before->modelled_s + share * (mean.modelled_s - before->modelled_s);
    }
    before = mean;
  }
  return std::nullopt;
}

// The baseline is adamw as given first; the target is what every method reached that
// did not diverge.
void relate(CompareResult& result, const std::vector<MethodSpec>& specs) {
  double baseline = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = specs.size(); i-- > 0;) {
    if (specs[i].name == "adamw") baseline = result.methods[i].loss;
  }
  result.target_loss = std::numeric_limits<double>::quiet_NaN();
  for (const MethodResult& method : result.methods) {
    // One that ended worse than it began has reached nothing.
    if (!(method.loss < method.seeds[0].curve.front().loss)) continue;
    result.target_loss = std::fmax(result.target_loss, method.loss);
  }
  for (MethodResult& method : result.methods) {
    method.gap = method.loss - baseline;
    method.time_to_loss_s = time_to(result.target_loss, method);
  }
}

std::string model_text(const RunOptions& options, std::uint64_t parameters) {
  const GptOptions& model = options.model;
  return fmt::format("{}: {} layers, {} wide, {} heads, {} tokens, {} parameters", options.preset,
                     model.layers, model.width, model.heads, model.context, parameters);
}

// What ranks of a site share beside the settings of all sites: they gather and evaluate together.
std::string inside_settings(const RunOptions& options) {
  return fmt::format(
      "eval_every = {}\neval_windows = {}\nsharding = {}\nguard = {}\nspike = {}\n"
      "compare_every = {}\n",
      options.eval_every, options.eval_windows, to_string(options.inside.sharding),
      static_cast<int>(options.guard.policy), options.guard.spike, options.guard.compare_every);
}

// Ranks as processes write a trace each: trace.json, trace-rank-1.json, ...
std::filesystem::path trace_path(const RunOptions& options, const SiteCommand& site) {
  std::filesystem::path path = options.trace;
  if (!site.place || site.place->rank == 0) return path;
  const std::string name = path.stem().string() + fmt::format("-rank-{}", site.place->rank);
  return path.replace_filename(name + path.extension().string());
}

// The process of rank 0 holds the directory and clears it before the others look into it.
void open_saving(std::optional<Saving>& saving, NearProcess& process, const SaveCommand& command,
                 const RunOptions& options, const Text& text) {
  if (!process.first()) process.near().barrier();
  saving.emplace(command, options, text, 1, process.rank());
  if (process.first()) process.near().barrier();
  if (process.all_equal(saving->from() ? saving->from()->step() + 1 : 0)) return;
  throw UsageError(
      "--save " + command.dir +
      ": ranks see different checkpoints there; give a directory that all of them share");
}

// The results of rounds that are in flight are still to be heard.
GoOn go_on(const std::optional<Saving>& saving, const RunOptions& options,
           const OptimizerCatalog& catalog) {
  if (!saving || !saving->from()) return {};
  const MethodSpec& method = options.methods.front();
  Settings settings(method.name, method.settings);
  const auto optimizer = catalog.make(method.name, settings);
  const auto delay = static_cast<std::uint64_t>(optimizer->traits().delay);
  const std::uint64_t step = saving->from()->step();
  const bool same = saving->from()->sites() == options.sites;
  return {rounds_before(*optimizer, step - std::min(step, delay), options.sites),
          same ? saving->rounds() : std::vector<Bytes>()};
}

// A run that fails leaves no half a bar in front of its message.
struct Wipe {
  Progress& progress;
  bool armed = true;
  ~Wipe() {
    if (armed) progress.clear();
  }
};

}  // namespace

CompareResult compare(const RunOptions& options, const OptimizerCatalog& catalog,
                      const std::string& command, const std::atomic<bool>& stop,
                      const TrainCommand& train) {
  // Whatever can be refused is refused before the first file or thread is made.
  const Text text = options.data.empty() ? read_kjv() : Text::read(options.data);
  text.require(options.model.context);
  const SiteCommand& site = train.site;
  check_site(site, options);
  check_nccl(site.near, site.place, options, site.site.empty() ? options.sites : 1);
  check_saving(train.save, options);
  if (site.place && !train.save.dir.empty() && options.sites != 1 && site.site.empty()) {
    throw UsageError("--save is not there for sites of processes that average over Gloo (--far); " +
                     std::string("let them meet at a hub, or leave it away"));
  }
  if (site.place && options.guard.policy == GuardPolicy::roll_back) {
    throw UsageError("ranks that are processes do not go back together; take --guard skip or stop");
  }
  const bool first = !site.place || site.place->rank == 0;  // of processes that are ranks
  if (first) check_out_dir(options.out);
  std::optional<OnStop> interrupts;
  const int patience_s = train.save.dir.empty() ? OnStop::kSoon : OnStop::kToSave;
  std::optional<NearProcess> process;
  if (site.place) {
    interrupts.emplace([] {}, patience_s);
    process.emplace(site.near, *site.place, options, site.connect_timeout_s,
                    shared_settings(options, text) + inside_settings(options) +
                        (wants_nccl(site.near) ? "near = nccl\n" : "near = gloo\n"));
  }
  std::optional<Saving> saving;
  if (!train.save.dir.empty() && process) {
    open_saving(saving, *process, train.save, options, text);
  } else if (!train.save.dir.empty()) {
    saving.emplace(train.save, options, text, site.site.empty() ? options.sites : 1);
  }
  const auto link = site.site.empty() || !first
                        ? nullptr
                        : dial(site, options, text, go_on(saving, options, catalog));
  if (process && !site.site.empty()) process->relay(link.get());
  if (link) interrupts.emplace([] {}, patience_s);  // the link looks at the flag itself
  std::optional<Trace> trace;
  if (!options.trace.empty()) trace.emplace(trace_path(options, site));
  CompareResult result;
  result.config = options.config;
  result.command = command;
  result.data = fmt::format("{} ({} bytes)", text.name(), text.bytes().size());
  result.link = to_string(options.link);
  result.sites = options.sites;
  result.ranks = options.ranks;
  result.steps = options.steps;
  result.machine = machine_text();
  if (options.device.cuda) {
    const std::string device = name_of(options.device.of(0));
    result.machine += ", " + device;
    log_info("models work on " + device);
  }

  const std::uint64_t total = options.methods.size() * options.seeds * options.steps;
  Progress progress(std::cerr, total, progress_on_stderr());
  Wipe wipe{progress};
  std::uint64_t done = 0;
  for (const MethodSpec& method : options.methods) {
    std::vector<RunResult> runs;
    for (int i = 0; i < options.seeds; ++i) {
      const std::uint64_t seed = options.seed + i;
      const auto show = [&](std::uint64_t step, double loss) {
        if (!first) return;
        progress.update(done + step, fmt::format("{} seed {}  loss {}", method.label, seed,
                                                 std::isfinite(loss) ? fmt::format("{:.3f}", loss)
                                                                     : "not finite"));
      };
      runs.push_back(
          run({options, method, seed, text, catalog, show, stop, process ? nullptr : link.get(),
               process ? &*process : nullptr, saving ? &*saving : nullptr, train.save.until,
               trace ? &*trace : nullptr, wants_nccl(site.near) ? &site.near : nullptr}));
      done += options.steps;
    }
    result.unsaved = runs.back().unsaved;
    result.parameters = runs[0].parameters;
    result.model = model_text(options, runs[0].parameters);
    result.ring_bytes = ring_bytes(runs[0].parameters, options.sites);
    result.methods.push_back(summarize(options, method, runs));
  }
  wipe.armed = false;
  progress.finish();
  relate(result, options.methods);
  return result;
}

}  // namespace thinwire::app
