// Runs the cells that studies want, several at a time, each in a process of its own, and keeps what
// is on the disk already. One thread.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/plan_study.h"
#include "apps/progress.h"
#include "apps/rank_process.h"

namespace thinwire::app {

struct PlanRunnerOptions {
  std::filesystem::path cells;  // a directory that is there
  int jobs = 1;
  std::uint64_t data_hash = 0;
};

class PlanRunner {
 public:
  // All outlive the runner.
  PlanRunner(std::deque<Study>& studies, const OptimizerCatalog& catalog, PlanRunnerOptions options,
             const std::atomic<bool>& stop);
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  // Until every study is finished. Throws Interrupted after a stop, within seconds, and Error when
  // two methods did not begin with the same weights and data.
  void go();

  std::size_t made() const { return made_; }    // cells that ran here
  std::size_t found() const { return found_; }  // that were there
  std::size_t again() const { return again_; }  // of those that ran: another hash was there

 private:
  struct Task {
    Study::Wanted wanted;
    std::string name;  // of the files
    std::string hash;
    double units;  // steps x parameters
  };
  struct Running {
    Task task;
    std::string printed;
    std::unique_ptr<RankProcess> process;
    double begun_s;
  };
  struct Cost {
    double wall_s = 0.0;
    double units = 0.0;
  };
  struct Start {  // what all methods of a size and seed share
    std::string label;
    double held_out;
    double training;
  };

  void look_for_work();
  void take(const Task& task, CellResult cell);
  void check_start(const Task& task, const CellResult& cell);
  void start(Task task);
  void wait_for_news();
  void reap();
  CellResult result_of(Running& running, int code) const;
  void end_all();
  double cost_of(const Study& study) const;  // seconds
  void show();
  std::filesystem::path file(const std::string& name) const { return options_.cells / name; }

  std::deque<Study>& studies_;
  const OptimizerCatalog& catalog_;
  const PlanRunnerOptions options_;
  const std::atomic<bool>& stop_;
  std::deque<Task> queue_;
  std::vector<std::unique_ptr<Running>> running_;
  std::map<std::string, Cost> costs_;  // by label
  std::map<std::string, Start> starts_;
  Progress progress_;
  double begun_s_;
  std::string latest_;
  std::size_t made_ = 0, found_ = 0, again_ = 0;
  double done_s_ = 0.0;  // of the cells that ran here
};

// A name for files: of letters that no file system minds, unlike any other cell's.
std::string cell_name(const Study& study, const PlanPoint& point, std::uint64_t seed);

}  // namespace thinwire::app
