// The figures of checkpoints: checkpoint_bench NAME prints one JSON object with the value and what
// it was made of.
#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/runner.h"
#include "optimizers/adamw.h"
#include "tests/support/child.h"
#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"
#include "thinwire/log.h"

namespace {

using namespace thinwire;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What it costs to save 100 MB of parameters and adamw's state, against a copy of them into memory
// that is there already. Medians of nine, interleaved.
json stall() {
  const test::TemporaryDirectory dir;
  test::ToyModel model({.parameters = {{"weight", {2048, 4096}}}});
  Adamw optimizer{Adamw::Options{}};
  LoopbackWorld world({});
  AllReduceSync sync(world.far_collective(0, 0));
  Trainer trainer(model, world.near(0, 0), optimizer, sync, {.schedule = {.steps = 100}});
  trainer.step();
  CheckpointWriter writer({.dir = dir.path(), .keep_last = 1});
  const Shard& shard = trainer.shard();
  std::vector<ConstFloats> state{shard.params(), shard.state("m"), shard.state("v")};
  std::vector<std::vector<float>> copies;
  std::size_t bytes = 0;
  for (const ConstFloats floats : state) {
    copies.emplace_back(floats.begin(), floats.end());
    bytes += floats.size_bytes();
  }
  writer.save({}, trainer);  // its memory is there from now on
  std::vector<double> stalls, plain;
  for (int i = 0; i < 9; ++i) {
    writer.flush();
    Clock::time_point begin = Clock::now();
    for (std::size_t j = 0; j < state.size(); ++j)
      std::memcpy(copies[j].data(), state[j].data(), state[j].size_bytes());
    plain.push_back(seconds_since(begin));
    begin = Clock::now();
    writer.save({}, trainer);
    stalls.push_back(seconds_since(begin));
  }
  writer.flush();
  std::sort(stalls.begin(), stalls.end());
  std::sort(plain.begin(), plain.end());
  return {{"value", stalls[4] / plain[4]},
          {"bytes", bytes},
          {"stall_s", stalls[4]},
          {"copy_s", plain[4]}};
}

app::RunResult train(const std::string& method, const app::SaveCommand& save) {
  static const OptimizerCatalog catalog = optimizer_catalog();
  static const std::atomic<bool> stop{false};
  const app::RunOptions options = app::resolve({{"run.methods", method},
                                                {"run.sites", "4"},
                                                {"run.steps", "200"},
                                                {"run.eval_every", "100"},
                                                {"run.eval_windows", "8"}},
                                               catalog);
  std::vector<std::uint8_t> bytes(100'000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>('a' + i * i % 23);
  const Text text = Text::from_bytes(bytes);
  std::optional<app::Saving> saving;
  if (!save.dir.empty()) saving.emplace(save, options, text, 4);
  app::Job job{.options = options,
               .method = options.methods[0],
               .seed = 1,
               .text = text,
               .catalog = catalog,
               .progress = {},
               .stop = stop};
  job.saving = saving ? &*saving : nullptr;
  job.until = save.until;
  return app::run(job);
}

// 200 steps in one go against 100, saved, and 100 more, every method of the catalog. Learning rates
// and samples are functions of the step; what they made of the model is compared.
json resume() {
  int failures = 0;
  json parts;
  std::vector<std::string> methods = optimizer_catalog().names();
  methods.push_back("distro:delay=1");
  for (const std::string& method : methods) {
    const test::TemporaryDirectory dir;
    app::SaveCommand save{.dir = dir.path().string(), .every = 100, .until = 100};
    const app::RunResult whole = train(method, {});
    train(method, save);
    save.until = 0;
    save.resume = true;
    const app::RunResult halves = train(method, save);
    const bool equal =
        whole.hash == halves.hash && whole.curve.back().loss == halves.curve.back().loss;
    failures += equal ? 0 : 1;
    parts[method] = equal;
  }
  return {{"value", failures}, {"equal", parts}};
}

// Saved by 4 ranks, read by others: the replicated state and a continued run.
json reshard() {
  int failures = 0;
  for (const std::string method : {"adamw", "demo", "distro", "distro:delay=1"}) {
    const test::TemporaryDirectory dir;
    const test::SavedRun run{.sites = 2, .ranks = 4, .method = method, .dir = dir.path()};
    const std::uint64_t whole = run.train(0, 20);
    const std::uint64_t saved = run.train(0, 10, 10);
    const FoundCheckpoint found = newest_checkpoint(dir.path());
    if (!found.checkpoint) return {{"value", nullptr}};
    for (const int ranks : {1, 2, 3, 8}) {
      test::SavedRun other = run;
      other.ranks = ranks;
      other.checkpoint = &*found.checkpoint;
      failures += other.train(10, 10) != saved;
      // Going on: a mean over more than two equal gradients of the toy model may be rounded.
      if (ranks <= 2) failures += other.train(10, 20) != whole;
    }
  }
  return {{"value", failures}};
}

std::uint64_t newest_published(const std::filesystem::path& dir) {
  const std::vector<std::filesystem::path> all = list_checkpoints(dir);
  return all.empty() ? 0 : std::stoull(all.front().filename().string().substr(5));
}

// kill -9 at 50 random moments of a run that saves after every step, then on from what is there.
json kills() {
  constexpr int kKills = 50;
  const test::TemporaryDirectory dir;
  const std::filesystem::path saved = dir.path() / "saved";
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{THINWIRE_PROGRAM, "train",
                                 "--sites",        "2",
                                 "--ranks",        "2",
                                 "--steps",        "100000",
                                 "--eval-every",   "100000",
                                 "--out",          (dir.path() / "out").string(),
                                 "--save",         saved.string(),
                                 "--save-every",   "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::mt19937 dice(20261201);
  int failures = 0, kills = 0, skipped = 0;
  std::uint64_t last = 0;
  while (kills < kKills) {
    test::Child child({.words = words({"--resume"})});
    const bool going = test::wait_until(30.0, [&] { return newest_published(saved) > last; });
    if (!going) {
      ++failures;
      break;
    }
    test::pause_ms(static_cast<int>(dice() % 60));
    const std::uint64_t before = newest_published(saved);
    child.kill();
    ++kills;
    const FoundCheckpoint found = newest_checkpoint(saved);
    skipped += static_cast<int>(found.skipped.size());
    if (!found.checkpoint || found.checkpoint->step() < before) ++failures;
    last = found.checkpoint ? found.checkpoint->step() : 0;
  }
  // All of it was one run: the same bits as without a kill.
  const auto hash = [&](const std::vector<std::string>& more) {
    const std::filesystem::path out = dir.path() / "json";
    std::vector<std::string> all = words(more);
    all.push_back("--json");
    test::Child child({.words = all, .output = out.string()});
    child.wait(300.0);
    const json result = json::parse(test::content_of(out), nullptr, false);
    std::filesystem::remove(out);
    return result.is_array() ? result[0].value("hash", "none") : "none";
  };
  const std::string until = std::to_string(last + 3);
  const std::string halves = hash({"--resume", "--until", until});
  std::filesystem::remove_all(saved);
  const std::string whole = hash({"--save-every", "100000", "--until", until});
  if (halves == "none" || halves != whole) ++failures;
  return {{"value", failures},  {"kills", kills}, {"steps", last},
          {"skipped", skipped}, {"hash", halves}, {"undisturbed", whole}};
}

}  // namespace

int main(int argc, char** argv) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);  // freed memory is used again
  const std::string name = argc == 2 ? argv[1] : "";
  json result;
  if (name == "checkpoint_stall") result = stall();
  if (name == "checkpoint_resume") result = resume();
  if (name == "checkpoint_reshard") result = reshard();
  if (name == "checkpoint_kill") result = kills();
  if (result.is_null()) {
    std::cerr << "checkpoint_bench: checkpoint_stall, checkpoint_resume, checkpoint_reshard or "
                 "checkpoint_kill\n";
    return 2;
  }
  result["name"] = name;
  std::cout << result.dump() << "\n";
  return 0;
}
