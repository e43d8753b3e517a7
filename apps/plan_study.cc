#include "apps/plan_study.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire::app {

bool Trial::complete() const {
  return std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.has_value(); });
}

double Trial::loss() const {
  if (status() != CellStatus::trained) return std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (const auto& cell : cells) sum += cell->loss();
  return sum / static_cast<double>(cells.size());
}

std::optional<CellStatus> Trial::status() const {
  if (!complete()) return std::nullopt;
  CellStatus worst = CellStatus::trained;
  for (const auto& cell : cells) worst = std::max(worst, cell->status);
  return worst;
}

Study::Study(const Plan& plan, const PlanSize& size, const PlanMethod& method)
    : plan_(&plan), size_(&size), method_(&method) {
  const std::vector<PlanPoint> points = grid_points(method);
  if (points.size() == 1 && !method.extend) {
    report_ = Trial{points.front(), false, {}};
    report_->cells.resize(plan.report_seeds.size());
    return;
  }
  for (const PlanPoint& point : points) add_trial(point, false);
}

void Study::add_trial(const PlanPoint& point, bool added) {
  tuning_.push_back({point, added, {}});
  tuning_.back().cells.resize(plan_->tune_seeds.size());
}

std::vector<Study::Wanted> Study::take_wanted() {
  advance();
  std::vector<Wanted> wanted;
  for (; asked_ < tuning_.size(); ++asked_) {
    for (std::size_t i = 0; i < plan_->tune_seeds.size(); ++i) {
      wanted.push_back({this, &tuning_[asked_], i, plan_->tune_seeds[i]});
    }
  }
  if (report_ && !report_asked_) {
    report_asked_ = true;
    for (std::size_t i = 0; i < plan_->report_seeds.size(); ++i) {
      wanted.push_back({this, &*report_, i, plan_->report_seeds[i]});
    }
  }
  return wanted;
}

std::size_t Study::ahead() const {
  if (hopeless_ || report_asked_) return 0;
  return (tuning_.size() - asked_) * plan_->tune_seeds.size() + plan_->report_seeds.size();
}

bool Study::finished() const { return hopeless_ || (report_ && report_->complete()); }

void Study::advance() {
  if (report_ || hopeless_) return;
  for (const Trial& trial : tuning_) {
    if (!trial.complete()) return;
  }
  choose();
  if (best_ == nullptr) {
    hopeless_ = true;
    return;
  }
  if (method_->extend && extend()) return;
  report_ = Trial{best_->point, false, {}};
  report_->cells.resize(plan_->report_seeds.size());
}

// The first of equals: the order of the grid decides, not the order of the runs.
void Study::choose() {
  best_ = nullptr;
  for (const Trial& trial : tuning_) {
    if (!std::isfinite(trial.loss())) continue;
    if (best_ == nullptr || trial.loss() < best_->loss()) best_ = &trial;
  }
  edge_ = Edge::none;
  if (best_ == nullptr) return;
  bool lower = false, higher = false;
  for (const Trial& trial : tuning_) {
    if (trial.point.settings != best_->point.settings) continue;
    lower = lower || trial.point.lr < best_->point.lr;
    higher = higher || trial.point.lr > best_->point.lr;
  }
  if (lower && higher) return;
  edge_ = lower ? Edge::high : higher ? Edge::low : Edge::both;
}

bool Study::extend() {
  const std::size_t before = tuning_.size();
  PlanPoint point = best_->point;
  for (const Edge side : {Edge::low, Edge::high}) {
    if ((edge_ != side && edge_ != Edge::both) || added_ == kAddedMax) continue;
    point.lr = side == Edge::low ? best_->point.lr / 2 : best_->point.lr * 2;
    ++added_;
    add_trial(point, true);
  }
  return tuning_.size() > before;
}

}  // namespace thinwire::app
