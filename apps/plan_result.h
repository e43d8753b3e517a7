// What a plan found out, as plain values: made from its studies, written by its reports.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "apps/plan_stats.h"
#include "apps/plan_study.h"
#include "apps/results.h"

namespace thinwire::app {

struct TunedCell {  // one point of a method's grid
  std::string method;
  std::string point;   // "beta1=0.9 lr=0.004"
  std::string status;  // "trained"
  std::string reason;  // of a failure or divergence
  double loss = 0.0;   // mean over the tuning seeds
  bool added = false;  // beyond the grid of the plan
  bool chosen = false;
  std::string remark;  // "lowest rate tried"
};

struct PlanRow {        // one method at one size, on the report seeds
  MethodResult method;  // label, settings, curves of the seeds that ran; loss: mean
  std::string point;    // chosen: "beta1=0.9 lr=0.004"
  std::string lr;
  std::string remark;  // of the tuning: "lowest rate tried", "not tuned"
  CellStatus status = CellStatus::failed;
  std::string reason;                    // why not trained
  std::vector<double> losses;            // by report seed; NaN: none
  std::size_t diverged = 0, failed = 0;  // seeds
  Interval to_adamw, to_muon;            // mean NaN: there is none
};

struct PlanSizeResult {
  std::string name;
  std::string model, data, link;
  int sites = 1;
  std::uint64_t steps = 0;
  std::uint64_t parameters = 0;
  double ring_bytes = 0.0;
  std::vector<PlanRow> rows;
  std::vector<TunedCell> tuning;
};

struct Verdict {  // on an expectation
  std::string name;
  std::string detail;  // "gap -0.0312, at most -0.03 expected"
  bool holds = false;
};

struct PlanResult {
  std::string name;
  std::string command;
  std::string text;  // of the plan
  std::string machine;
  std::vector<std::uint64_t> tune_seeds, report_seeds;
  std::vector<PlanSizeResult> sizes;
  std::vector<Verdict> verdicts;
  std::vector<std::string> notes;   // baselines left out, builds of the program
  std::vector<std::string> failed;  // runs: "NAME: reason"
  bool has_muon = false;
};

// All studies are finished.
PlanResult plan_result(const Plan& plan, const std::deque<Study>& studies);

}  // namespace thinwire::app
