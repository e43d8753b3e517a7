#include "apps/plan_table.h"

#include <fmt/format.h>

#include <cmath>

namespace thinwire::app {
namespace {

std::string plain_loss(const PlanRow& row) {
  const std::size_t seeds = row.losses.size();
  if (row.status == CellStatus::failed) return "failed";
  if (row.status == CellStatus::diverged) {
    return seeds == 0 ? "diverged" : fmt::format("diverged {}/{}", row.diverged, seeds);
  }
  std::string text = fmt::format("{:.4f}", row.method.loss);
  if (row.failed > 0) text += fmt::format(" ({}/{})", seeds - row.failed, seeds);
  return text;
}

std::string interval_of(const PlanRow& row, const Interval& interval, const char* baseline) {
  return row.method.method == baseline ? "baseline" : interval_text(interval);
}

bool at_edge(const std::string& remark) {
  return remark == "lowest rate tried" || remark == "highest rate tried";
}

std::string remark_of(const TunedCell& cell) {
  std::string text = cell.chosen ? "best" : cell.status == "trained" ? "" : cell.status;
  if (!cell.remark.empty()) text += ", " + cell.remark;
  if (cell.added) text += text.empty() ? "added" : ", added";
  return text;
}

std::string sentence(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += wrap(line, kTableColumns);
  return text;
}

}  // namespace

std::string interval_text(const Interval& interval) {
  if (!std::isfinite(interval.mean)) return "-";
  if (!std::isfinite(interval.half)) return fmt::format("{:+.4f} (1 seed)", interval.mean);
  return fmt::format("{:+.4f} +- {:.4f}", interval.mean, interval.half);
}

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::string text;
  for (const std::uint64_t seed : seeds) text += (text.empty() ? "" : ", ") + std::to_string(seed);
  return (seeds.size() == 1 ? "seed " : "seeds ") + text;
}

Grid gap_grid(const PlanResult& result, const PlanSizeResult& size) {
  Grid grid{{"method", "lr", "held-out loss", "vs adamw"}, {}};
  if (result.has_muon) grid.headings.push_back("vs muon");
  for (const PlanRow& row : size.rows) {
    grid.rows.push_back({row.method.method,
                         (row.lr.empty() ? "-" : row.lr) + (at_edge(row.remark) ? "*" : ""),
                         plain_loss(row), interval_of(row, row.to_adamw, "adamw")});
    if (result.has_muon) grid.rows.back().push_back(interval_of(row, row.to_muon, "muon"));
  }
  return grid;
}

Grid wire_grid(const PlanSizeResult& size) {
  Grid grid{{"method", "up/step", "down/step", "up/ring", "down/ring", "step time"}, {}};
  for (const PlanRow& row : size.rows) {
    const MethodResult& method = row.method;
    if (method.seeds.empty()) continue;  // nothing ran to its end
    grid.rows.push_back({method.method, bytes_text(method.bytes_up), bytes_text(method.bytes_down),
                         ratio_text(method.ratio_up), ratio_text(method.ratio_down),
                         seconds_text(method.step_s)});
  }
  return grid;
}

Grid chosen_grid(const PlanSizeResult& size) {
  Grid grid{{"method", "tuning", "chosen"}, {}};
  for (const PlanRow& row : size.rows) {
    grid.rows.push_back({row.method.method, row.remark.empty() ? "inside the grid" : row.remark,
                         row.point.empty() ? "-" : row.point});
  }
  return grid;
}

Grid tuning_grid(const PlanSizeResult& size) {
  Grid grid{{"method", "loss", "remark", "settings"}, {}};
  for (const TunedCell& cell : size.tuning) {
    grid.rows.push_back({cell.method,
                         std::isfinite(cell.loss) ? fmt::format("{:.4f}", cell.loss) : "-",
                         remark_of(cell), cell.point});
  }
  return grid;
}

std::string size_heading(const PlanSizeResult& size) {
  // "nano: 4 layers, ...": the name before it is the size's, or that of what it was made from.
  const std::string text =
      size.model.empty() ? "nothing ran to its end" : size.model.substr(size.model.find(": ") + 2);
  return fmt::format("Size {}: {}; {} sites, {} steps", size.name, text, size.sites,
                     count_text(static_cast<double>(size.steps)));
}

std::vector<std::string> plan_notes(const PlanResult& result) {
  std::vector<std::string> notes{
      "Loss: mean over " + seeds_text(result.report_seeds) +
          " of the last held-out loss, nats per byte. Settings were chosen on " +
          seeds_text(result.tune_seeds) + " alone.",
      "vs: mean of the differences seed by seed, +- the half width of a 95 % interval by Student's "
      "t. It speaks of seeds, of this text, model and length, and of nothing else; with many "
      "methods some intervals miss the truth.",
      "Bytes: of one site and step, counted where frames meet the transport; up/ring is that part "
      "of an fp32 ring all-reduce of the model.",
      "Step time: measured computation of a step and modelled exchange over the link" +
          (result.sizes.empty() ? std::string() : " " + result.sizes.front().link) + "."};
  notes.insert(notes.end(), result.notes.begin(), result.notes.end());
  return notes;
}

std::vector<std::string> plan_warnings(const PlanResult& result) {
  std::vector<std::string> all;
  for (const PlanSizeResult& size : result.sizes) {
    std::string edges, diverged, skipped;
    for (const PlanRow& row : size.rows) {
      if (at_edge(row.remark)) edges += (edges.empty() ? "" : ", ") + row.method.method;
      if (row.method.skipped > 0) {
        skipped += fmt::format("{}{} ({})", skipped.empty() ? "" : ", ", row.method.method,
                               row.method.skipped);
      }
      if (row.status != CellStatus::diverged) continue;
      diverged += (diverged.empty() ? "" : ", ") + row.method.method + " (" + row.reason + ")";
    }
    if (!diverged.empty()) {
      all.push_back("At size " + size.name + " these diverged: " + diverged + ".");
    }
    if (!skipped.empty()) {
      all.push_back("At size " + size.name + " contributions of these were left out because a " +
                    "gradient was not finite: " + skipped + ".");
    }
    if (edges.empty()) continue;
    all.push_back("* At size " + size.name + " the best rate of these is the lowest or highest " +
                  "that was tried, and a better one may lie beyond (widen lr, or extend = true): " +
                  edges + ".");
  }
  for (const std::string& one : result.failed) all.push_back("Failed: " + one + ".");
  return all;
}

std::string verdict_text(const Verdict& verdict) {
  return (verdict.holds ? "holds: " : "VIOLATED: ") + verdict.name + ": " + verdict.detail;
}

std::string plan_table(const PlanResult& result) {
  std::string text = wrap("Plan " + result.name, kTableColumns);
  for (const PlanSizeResult& size : result.sizes) {
    text += "\n" + wrap(size_heading(size), kTableColumns);
    text += "\n" + grid_text(gap_grid(result, size));
    text += "\n" + grid_text(wire_grid(size));
    if (!size.tuning.empty()) text += "\nTuning\n" + grid_text(tuning_grid(size));
  }
  text += "\n" + sentence(plan_notes(result));
  const std::vector<std::string> warnings = plan_warnings(result);
  if (!warnings.empty()) text += "\n" + sentence(warnings);
  if (!result.verdicts.empty()) text += "\n";
  for (const Verdict& verdict : result.verdicts) text += wrap(verdict_text(verdict), kTableColumns);
  return text;
}

}  // namespace thinwire::app
