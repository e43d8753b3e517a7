// One method at one size: its grid on the tuning seeds, the best cell of it on the report seeds.
// Decides which cells are to run next; starts none. One thread.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "apps/plan.h"
#include "apps/plan_cell.h"

namespace thinwire::app {

// A point of the grid on all seeds of its kind.
struct Trial {
  PlanPoint point;
  bool added = false;                            // beyond the grid of the plan
  std::vector<std::optional<CellResult>> cells;  // by seed

  bool complete() const;
  // Mean over seeds; infinite when one diverged or failed.
  double loss() const;
  std::optional<CellStatus> status() const;  // the worst of its cells; none: not complete
};

enum class Edge { none, low, high, both };  // of the rates that were tried

class Study {
 public:
  static constexpr int kAddedMax = 4;

  // All outlive the study.
  Study(const Plan& plan, const PlanSize& size, const PlanMethod& method);
  Study(const Study&) = delete;
  Study& operator=(const Study&) = delete;

  const PlanSize& size() const { return *size_; }
  const PlanMethod& method() const { return *method_; }

  // A run that is to be made, and where its result belongs.
  struct Wanted {
    Study* study;
    Trial* trial;
    std::size_t index;  // of the seed
    std::uint64_t seed;
  };
  // Those that have not been asked for before. Empty does not mean finished: the results that are
  // being waited for decide on more.
  std::vector<Wanted> take_wanted();
  // How many cells are certain to come that take_wanted() has not given out.
  std::size_t ahead() const;

  // Nothing was tuned when there is only one point.
  const std::deque<Trial>& tuning() const { return tuning_; }
  // None: not tuned yet, or no cell of the grid trained.
  const Trial* best() const { return best_; }
  Edge edge() const { return edge_; }
  const std::optional<Trial>& report() const { return report_; }
  bool finished() const;

 private:
  void advance();
  void choose();
  bool extend();
  void add_trial(const PlanPoint& point, bool added);

  const Plan* plan_;
  const PlanSize* size_;
  const PlanMethod* method_;
  std::deque<Trial> tuning_;  // what was wanted points into it
  std::size_t asked_ = 0;     // trials of tuning_ that were given out
  const Trial* best_ = nullptr;
  Edge edge_ = Edge::none;
  int added_ = 0;
  std::optional<Trial> report_;
  bool report_asked_ = false;
  bool hopeless_ = false;  // no cell of the grid trained
};

}  // namespace thinwire::app
