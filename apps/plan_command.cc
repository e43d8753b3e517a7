#include "apps/plan_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <thread>

#include "apps/kjv.h"
#include "apps/out_dir.h"
#include "apps/plan_report.h"
#include "apps/plan_runner.h"
#include "apps/plan_table.h"
#include "apps/toml_text.h"
#include "models/text.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;

constexpr int kJobsMax = 1024;

// Sizes may train on texts of their own; one that two share is read once.
std::uint64_t hash_of_data(const Plan& plan, const OptimizerCatalog& catalog) {
  std::map<std::string, std::uint64_t> hashes;
  std::uint64_t all = 0;
  for (const PlanSize& size : plan.sizes) {
    FlatConfig config = size.config;
    config["run.methods"] = "adamw";
    const RunOptions options = resolve(config, catalog);
    const Text text = options.data.empty() ? read_kjv() : Text::read(options.data);
    text.require(options.model.context);
    const auto [found, first] = hashes.emplace(options.data, 0);
    if (!first) continue;
    found->second = hash64(std::as_bytes(text.bytes()));
    all = hash_fold(all, found->second);
  }
  return all;
}

// One plan at a time writes into a directory. Held until the process ends.
class Lock {
 public:
  explicit Lock(const fs::path& dir)
      : file_(::open((dir / ".plan.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    if (file_ >= 0) ::close(file_);
    throw UsageError("--out " + dir.string() +
                     " is in use by another plan; wait for it or choose another directory");
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

std::string name_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return parse_toml(text, path)["name"].value_or(std::string());
  } catch (const UsageError&) {
    return "";
  }
}

// The plan's own name decides: its grids may change from one start to the next.
void claim(const fs::path& dir, const Plan& plan) {
  const fs::path kept = dir / "plan.toml";
  std::error_code ignored;
  const bool cells = fs::exists(dir / "cells", ignored);
  if (cells && (!fs::exists(kept, ignored) || name_in(kept) != plan.name)) {
    throw UsageError("--out " + dir.string() + " holds the runs of another plan, '" +
                     name_in(kept) + "'; choose another directory");
  }
  write_files(dir, {{"plan.toml", plan.text}});
  check_out_dir(dir / "cells");
}

// What goes wrong is said in one line, after the report, which has the rest.
void complain(const PlanResult& result, const fs::path& out) {
  std::vector<std::string> violated;
  for (const Verdict& verdict : result.verdicts) {
    if (!verdict.holds) violated.push_back(verdict.name + " (" + verdict.detail + ")");
  }
  const std::string where = "; see " + (out / "report.txt").string();
  if (!violated.empty()) {
    std::string all;
    for (const std::string& one : violated) all += (all.empty() ? "" : ", ") + one;
    throw Error("expectations are violated: " + all + where);
  }
  if (result.failed.empty()) return;
  throw Error(fmt::format("{} runs failed, the first: {}{}; the same command tries them again",
                          result.failed.size(), result.failed.front(), where));
}

}  // namespace

void run_plan(const PlanCommand& command, const OptimizerCatalog& catalog, const std::string& text,
              const std::atomic<bool>& stop) {
  if (command.jobs < 0 || command.jobs > kJobsMax) {
    throw UsageError(fmt::format("--jobs must be 1 to {}", kJobsMax));
  }
  const Plan plan = read_plan(command.file, catalog);
  const std::uint64_t data_hash = hash_of_data(plan, catalog);
  const fs::path out = command.out;
  check_out_dir(out);
  const Lock lock(out);
  claim(out, plan);
  std::deque<Study> studies;
  for (const PlanSize& size : plan.sizes) {
    for (const PlanMethod& method : plan.methods) {
      if (takes_part(method, size)) studies.emplace_back(plan, size, method);
    }
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  PlanRunner runner(studies, catalog,
                    {.cells = out / "cells",
                     .jobs = command.jobs > 0 ? command.jobs : cores,
                     .data_hash = data_hash},
                    stop);
  runner.go();
  log_info(fmt::format("plan: {} runs made, {} were there already", runner.made(), runner.found()));
  PlanResult result = plan_result(plan, studies);
  result.command = text;
  write_plan_report(result, out);
  std::cout << (command.json ? plan_json(result) : plan_table(result)) << std::flush;
  std::cerr << "report: " << (out / "report.html").string() << "\n";
  complain(result, out);
}

}  // namespace thinwire::app
