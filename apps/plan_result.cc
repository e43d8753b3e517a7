#include "apps/plan_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "apps/plan_presets.h"
#include "apps/plan_verdicts.h"
#include "thinwire/hash.h"

namespace thinwire::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string edge_text(const Study& study) {
  switch (study.edge()) {
    case Edge::low:
      return "lowest rate tried";
    case Edge::high:
      return "highest rate tried";
    case Edge::both:
      return "only one rate tried";
    case Edge::none:
      break;
  }
  return "";
}

std::string reason_of(const Trial& trial) {
  for (const auto& cell : trial.cells) {
    if (cell && cell->status != CellStatus::trained) return cell->reason;
  }
  return "";
}

std::vector<TunedCell> tuning_of(const Study& study) {
  std::vector<TunedCell> all;
  for (const Trial& trial : study.tuning()) {
    TunedCell one{.method = study.method().label,
                  .point = describe(trial.point),
                  .status = to_string(*trial.status()),
                  .reason = reason_of(trial),
                  .loss = trial.loss(),
                  .added = trial.added,
                  .chosen = &trial == study.best(),
                  .remark = ""};
    if (one.chosen) one.remark = edge_text(study);
    all.push_back(std::move(one));
  }
  return all;
}

std::string lr_text(float lr) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, lr).ptr};
}

// Means over the seeds that ran to their end, whatever became of them.
void add_cells(PlanRow& row, const Trial& trial) {
  double count = 0.0;
  for (const auto& cell : trial.cells) count += cell->method.seeds.empty() ? 0.0 : 1.0;
  for (const auto& cell : trial.cells) {
    row.losses.push_back(cell->status == CellStatus::trained ? cell->loss() : kNone);
    row.diverged += cell->status == CellStatus::diverged ? 1 : 0;
    row.failed += cell->status == CellStatus::failed ? 1 : 0;
    if (cell->method.seeds.empty()) continue;
    row.method.settings = cell->method.settings;
    row.method.bytes_up += cell->method.bytes_up / count;
    row.method.bytes_down += cell->method.bytes_down / count;
    row.method.compute_s += cell->method.compute_s / count;
    row.method.step_s += cell->method.step_s / count;
    row.method.skipped += cell->method.skipped;
    row.method.peak_mb = std::max(row.method.peak_mb, cell->method.peak_mb);
    row.method.seeds.push_back(cell->seed());
  }
}

std::vector<double> trained(const std::vector<double>& losses) {
  std::vector<double> all;
  std::copy_if(losses.begin(), losses.end(), std::back_inserter(all),
               [](double loss) { return std::isfinite(loss); });
  return all;
}

PlanRow row_of(const Study& study) {
  PlanRow row;
  row.method.method = study.method().label;
  row.method.loss = row.method.loss_sd = row.method.gap = kNone;
  row.to_adamw.mean = row.to_muon.mean = kNone;
  if (!study.report()) {  // no cell of the grid trained
    row.status = CellStatus::failed;
    for (const Trial& trial : study.tuning()) row.status = std::min(row.status, *trial.status());
    row.reason = "no cell of its grid trained: " + reason_of(study.tuning().front());
    return row;
  }
  const Trial& trial = *study.report();
  row.point = describe(trial.point);
  row.lr = lr_text(trial.point.lr);
  row.remark = study.tuning().empty() ? "not tuned" : edge_text(study);
  add_cells(row, trial);
  row.reason = reason_of(trial);
  row.status = row.diverged > 0 ? CellStatus::diverged : CellStatus::trained;
  const std::vector<double> losses = trained(row.losses);
  if (losses.empty() && row.diverged == 0) row.status = CellStatus::failed;
  if (row.status != CellStatus::trained) return row;
  row.method.loss = mean_of(losses);
  row.method.loss_sd = standard_deviation_of(losses);
  return row;
}

// Over the seeds that both ran with. A mean of those that happen not to diverge would flatter.
Interval difference(const PlanRow& row, const PlanRow& baseline) {
  if (row.status != CellStatus::trained || baseline.status != CellStatus::trained) {
    return {kNone, kNone, 0};
  }
  std::vector<double> a, b;
  for (std::size_t i = 0; i < row.losses.size(); ++i) {
    if (!std::isfinite(row.losses[i]) || !std::isfinite(baseline.losses[i])) continue;
    a.push_back(row.losses[i]);
    b.push_back(baseline.losses[i]);
  }
  return paired_difference(a, b);
}

void relate(PlanSizeResult& size) {
  const auto find = [&](const char* label) {
    return std::find_if(size.rows.begin(), size.rows.end(),
                        [&](const PlanRow& row) { return row.method.method == label; });
  };
  const auto adamw = find(kAdamw), muon = find(kMuon);
  for (PlanRow& row : size.rows) {
    if (adamw != size.rows.end()) row.to_adamw = difference(row, *adamw);
    if (muon != size.rows.end()) row.to_muon = difference(row, *muon);
    row.method.gap = row.to_adamw.mean;
    row.method.ratio_up = row.method.bytes_up > 0 ? size.ring_bytes / row.method.bytes_up : kNone;
    row.method.ratio_down =
        row.method.bytes_down > 0 ? size.ring_bytes / row.method.bytes_down : kNone;
  }
}

std::vector<const CellResult*> cells_of(const Study& study) {
  std::vector<const CellResult*> all;
  const auto add = [&](const Trial& trial) {
    for (const auto& cell : trial.cells) {
      if (cell) all.push_back(&*cell);
    }
  };
  for (const Trial& trial : study.tuning()) add(trial);
  if (study.report()) add(*study.report());
  return all;
}

PlanSizeResult empty_size(const PlanSize& size) {
  PlanSizeResult result;
  result.name = size.name;
  result.sites = size.sites;
  result.steps = size.steps;
  result.parameters = size.parameters;
  result.ring_bytes =
      2.0 * (size.sites - 1) / size.sites * sizeof(float) * static_cast<double>(size.parameters);
  return result;
}

void note_failures(const Study& study, PlanResult& result) {
  const auto note = [&](const Trial& trial, const std::vector<std::uint64_t>& seeds) {
    for (std::size_t i = 0; i < trial.cells.size(); ++i) {
      const CellResult& cell = *trial.cells[i];
      if (cell.status != CellStatus::failed) continue;
      result.failed.push_back(fmt::format("{} at size {}, {}, seed {}: {}", study.method().label,
                                          study.size().name, describe(trial.point), seeds[i],
                                          cell.reason));
    }
  };
  for (const Trial& trial : study.tuning()) note(trial, result.tune_seeds);
  if (study.report()) note(*study.report(), result.report_seeds);
}

}  // namespace

PlanResult plan_result(const Plan& plan, const std::deque<Study>& studies) {
  PlanResult result;
  result.name = plan.name;
  result.text = plan.text;
  result.tune_seeds = plan.tune_seeds;
  result.report_seeds = plan.report_seeds;
  result.notes = plan.notes;
  std::set<std::string> programs;
  for (const PlanSize& size : plan.sizes) {
    PlanSizeResult one = empty_size(size);
    for (const Study& study : studies) {
      if (&study.size() != &size) continue;
      one.rows.push_back(row_of(study));
      for (TunedCell& cell : tuning_of(study)) one.tuning.push_back(std::move(cell));
      note_failures(study, result);
      for (const CellResult* cell : cells_of(study)) {
        if (cell->program.empty()) continue;
        programs.insert(cell->program);
        if (cell->model.empty()) continue;
        one.model = cell->model;
        one.data = cell->data;
        one.link = cell->link;
        result.machine = cell->machine;
      }
      result.has_muon = result.has_muon || study.method().label == kMuon;
    }
    relate(one);
    result.sizes.push_back(std::move(one));
  }
  if (programs.size() > 1) {
    result.notes.push_back(fmt::format(
        "Runs were made by {} different builds of the program; take a new --out for one.",
        programs.size()));
  }
  result.verdicts = judge(plan, result);
  return result;
}

}  // namespace thinwire::app
