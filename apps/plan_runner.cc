#include "apps/plan_runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <iostream>

#include "apps/out_dir.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

constexpr int kTickMs = 50;
constexpr double kGrace_s = 3.0;  // from the signal to the end of a run
constexpr std::uint64_t kBar = 10'000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> our_environment() {
  std::vector<std::string> all;
  for (char** one = ::environ; *one != nullptr; ++one) all.emplace_back(*one);
  return all;
}

// The last thing that the program said about itself.
std::string complaint_in(const std::string& printed) {
  constexpr std::string_view kBegin = "thinwire: ";
  const std::size_t at = printed.rfind(kBegin);
  if (at == std::string::npos || (at > 0 && printed[at - 1] != '\n')) return "";
  const std::size_t begin = at + kBegin.size();
  return printed.substr(begin, printed.find('\n', begin) - begin);
}

}  // namespace

std::string cell_name(const Study& study, const PlanPoint& point, std::uint64_t seed) {
  const std::string exact =
      fmt::format("{}\n{}\n{}\n{}", study.size().name, study.method().label, describe(point), seed);
  std::string name =
      fmt::format("{:.24}-{:.40}-{:.60}", study.size().name, study.method().label, describe(point));
  for (char& letter : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.' ||
                       letter == '-' || letter == '=';
    if (!plain) letter = '_';
  }
  return fmt::format("{}-seed{}-{:08x}", name, seed, hash64(std::string_view(exact)) >> 32);
}

PlanRunner::PlanRunner(std::deque<Study>& studies, const OptimizerCatalog& catalog,
                       PlanRunnerOptions options, const std::atomic<bool>& stop)
    : studies_(studies),
      catalog_(catalog),
      options_(std::move(options)),
      stop_(stop),
      progress_(std::cerr, kBar, progress_on_stderr()),
      begun_s_(now_s()) {}

void PlanRunner::go() {
  try {
    while (true) {
      look_for_work();
      while (!stop_ && !queue_.empty() &&
             running_.size() < static_cast<std::size_t>(options_.jobs)) {
        start(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (stop_) break;
      if (running_.empty()) break;  // and nothing is queued: every study is finished
      wait_for_news();
      reap();
      show();
    }
  } catch (...) {
    progress_.clear();
    throw;
  }
  if (stop_) {
    end_all();
    progress_.clear();
    throw Interrupted(
        fmt::format("stopped; {} finished runs are kept, and the same command goes on from there",
                    found_ + made_));
  }
  if (made_ > 0) {
    progress_.update(kBar, latest_);
    progress_.finish();
  }
}

// What is found on the disk may at once make more be wanted.
void PlanRunner::look_for_work() {
  for (Study& study : studies_) {
    for (std::vector<Study::Wanted> wanted = study.take_wanted(); !wanted.empty();
         wanted = study.take_wanted()) {
      for (const Study::Wanted& one : wanted) {
        const FlatConfig config =
            cell_config(study.size(), study.method(), one.trial->point, one.seed);
        Task task{one, cell_name(study, one.trial->point, one.seed),
                  cell_hash(config, options_.data_hash, catalog_),
                  static_cast<double>(study.size().steps * study.size().parameters)};
        bool stale = false;
        if (auto cell = read_cell(file(task.name + ".json"), task.hash, stale)) {
          ++found_;
          take(task, std::move(*cell));
          continue;
        }
        if (stale) {
          ++again_;
          progress_.clear();
          log_info("plan: " + task.name +
                   " was run with other settings, data or another version; it is run anew");
        }
        queue_.push_back(std::move(task));
      }
    }
  }
}

void PlanRunner::take(const Task& task, CellResult cell) {
  if (cell.status != CellStatus::failed) {
    Cost& cost = costs_[task.wanted.study->method().label];
    cost.wall_s += cell.wall_s;
    cost.units += task.units;
    check_start(task, cell);
  }
  task.wanted.trial->cells[task.wanted.index] = std::move(cell);
}

// A method that trains on other data, or from other weights, would be compared with nothing.
void PlanRunner::check_start(const Task& task, const CellResult& cell) {
  if (cell.method.seeds.empty() || cell.seed().curve.empty()) return;
  const Study& study = *task.wanted.study;
  const Start start{study.method().label, cell.seed().curve.front().loss, cell.seed().first_loss};
  const auto [found, first] =
      starts_.emplace(fmt::format("{} seed {}", study.size().name, task.wanted.seed), start);
  const Start& known = found->second;
  if (first || (known.held_out == start.held_out && known.training == start.training)) return;
  throw Error(fmt::format(
      "size {}: '{}' began with a held-out loss of {} and a first training loss of {}, '{}' with "
      "{} "
      "and {}; methods must share weights and data, so there is nothing to compare; this is a "
      "defect of a method or of the plan",
      found->first, known.label, known.held_out, known.training, start.label, start.held_out,
      start.training));
}

void PlanRunner::start(Task task) {
  const Study& study = *task.wanted.study;
  FlatConfig config =
      cell_config(study.size(), study.method(), task.wanted.trial->point, task.wanted.seed);
  std::map<std::string, std::map<std::string, std::string>> tables;
  for (const auto& [name, value] : config) {
    const std::size_t dot = name.find('.');
    tables[name.substr(0, dot)][name.substr(dot + 1)] = value;
  }
  std::string toml;
  for (const auto& [name, values] : tables) toml += toml_table({name}, values);
  write_files(options_.cells, {{task.name + ".toml", toml}});
  const std::vector<std::string> words{"/proc/self/exe", "plan-cell",
                                       "--config",       file(task.name + ".toml").string(),
                                       "--result",       file(task.name + ".json").string(),
                                       "--hash",         task.hash};
  latest_ = fmt::format("{} seed {}", study.method().label, task.wanted.seed);
  auto running = std::make_unique<Running>(Running{std::move(task), "", nullptr, now_s()});
  running->process = std::make_unique<RankProcess>(0, words, our_environment(), &running->printed);
  running_.push_back(std::move(running));
}

void PlanRunner::wait_for_news() {
  std::vector<pollfd> files;
  for (const auto& one : running_) {
    files.push_back({one->process->out(), POLLIN, 0});
    files.push_back({one->process->err(), POLLIN, 0});
  }
  ::poll(files.data(), files.size(), kTickMs);
  for (const auto& one : running_) one->process->pass_on();
}

void PlanRunner::reap() {
  for (std::size_t i = 0; i < running_.size();) {
    const std::optional<int> code = running_[i]->process->ended();
    if (!code) {
      ++i;
      continue;
    }
    const std::unique_ptr<Running> over = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    if (stop_) continue;  // it may have heard the signal too
    CellResult cell = result_of(*over, *code);
    ++made_;
    done_s_ += now_s() - over->begun_s;
    if (cell.status == CellStatus::failed) {
      progress_.clear();
      log_warn("plan: " + over->task.name + " failed: " + cell.reason);
    }
    take(over->task, std::move(cell));
  }
}

CellResult PlanRunner::result_of(Running& running, int code) const {
  bool stale = false;
  if (code == 0) {
    auto cell = read_cell(file(running.task.name + ".json"), running.task.hash, stale);
    if (cell) return std::move(*cell);
  }
  CellResult failed;
  failed.reason = complaint_in(running.printed);
  if (!failed.reason.empty()) return failed;
  if (!running.process->by_signal()) {
    failed.reason = fmt::format("ended with exit code {} and without a result", code);
    return failed;
  }
  failed.reason = fmt::format("was ended by signal {}", code - 128);
  if (code - 128 == SIGKILL) failed.reason += "; there may have been too little memory";
  return failed;
}

void PlanRunner::end_all() {
  for (const auto& one : running_) one->process->signal(SIGTERM);
  for (const double end = now_s() + kGrace_s; !running_.empty() && now_s() < end;) {
    wait_for_news();
    reap();
  }
  running_.clear();  // which ends those that are left
}

double PlanRunner::cost_of(const Study& study) const {
  const double units = static_cast<double>(study.size().steps * study.size().parameters);
  const auto known = costs_.find(study.method().label);
  if (known != costs_.end()) return units * known->second.wall_s / known->second.units;
  Cost all;
  for (const auto& [label, cost] : costs_) {
    all.wall_s += cost.wall_s;
    all.units += cost.units;
  }
  return all.units > 0 ? units * all.wall_s / all.units : 0.0;
}

void PlanRunner::show() {
  double done = done_s_, left = 0.0;
  std::size_t ahead = queue_.size() + running_.size();
  for (const Task& task : queue_) left += cost_of(*task.wanted.study);
  for (const auto& one : running_) {
    const double cost = cost_of(*one->task.wanted.study);
    const double spent = std::min(now_s() - one->begun_s, 0.95 * cost);
    done += spent;
    left += cost - spent;
  }
  for (const Study& study : studies_) {
    ahead += study.ahead();
    left += static_cast<double>(study.ahead()) * cost_of(study);
  }
  // Before anything was measured there is no estimate, and at 0 the bar shows none.
  const double share = costs_.empty() ? 0.0 : done / (done + left);
  progress_.update(std::min(kBar - 1, static_cast<std::uint64_t>(share * kBar)),
                   fmt::format("{}/{} runs  {}", found_ + made_, found_ + made_ + ahead, latest_));
}

}  // namespace thinwire::app
