#include "apps/plan_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/out_dir.h"
#include "apps/plan_table.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::ordered_json;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const Interval& interval) {
  return {{"mean", finite_or_null(interval.mean)},
          {"half", finite_or_null(interval.half)},
          {"pairs", interval.pairs}};
}

Json seeds_of(const MethodResult& method) {
  Json seeds = Json::array();
  for (const SeedResult& seed : method.seeds) {
    Json curve = Json::array();
    for (const CurvePoint& at : seed.curve) {
      curve.push_back({at.step, finite_or_null(at.loss), at.bytes_up});
    }
    seeds.push_back(
        {{"seed", seed.seed},
         {"loss", seed.curve.empty() ? Json(nullptr) : finite_or_null(seed.curve.back().loss)},
         {"hash", seed.hash},
         {"curve", std::move(curve)}});
  }
  return seeds;
}

Json json_of(const PlanRow& row) {
  const MethodResult& method = row.method;
  return {
      {"method", method.method},
      {"status", to_string(row.status)},
      {"reason", row.reason},
      {"chosen", row.point},
      {"tuning", row.remark},
      {"settings", method.settings},
      {"loss", finite_or_null(method.loss)},
      {"loss_sd", finite_or_null(method.loss_sd)},
      {"vs_adamw", json_of(row.to_adamw)},
      {"vs_muon", json_of(row.to_muon)},
      {"diverged", row.diverged},
      {"failed", row.failed},
      {"bytes_up", method.bytes_up},
      {"bytes_down", method.bytes_down},
      {"ratio_up", finite_or_null(method.ratio_up)},
      {"ratio_down", finite_or_null(method.ratio_down)},
      {"skipped", method.skipped},
      {"times",
       {{"compute_s", method.compute_s}, {"step_s", method.step_s}, {"peak_mb", method.peak_mb}}},
      {"seeds", seeds_of(method)}};
}

Json json_of(const TunedCell& cell) {
  return {{"method", cell.method},
          {"point", cell.point},
          {"status", cell.status},
          {"reason", cell.reason},
          {"loss", finite_or_null(cell.loss)},
          {"chosen", cell.chosen},
          {"added", cell.added},
          {"remark", cell.remark}};
}

Json json_of(const PlanSizeResult& size) {
  Json rows = Json::array(), tuning = Json::array();
  for (const PlanRow& row : size.rows) rows.push_back(json_of(row));
  for (const TunedCell& cell : size.tuning) tuning.push_back(json_of(cell));
  return {{"name", size.name},
          {"model", size.model},
          {"data", size.data},
          {"link", size.link},
          {"sites", size.sites},
          {"steps", size.steps},
          {"parameters", size.parameters},
          {"ring_bytes", size.ring_bytes},
          {"methods", std::move(rows)},
          {"tuning", std::move(tuning)}};
}

}  // namespace

std::string plan_json(const PlanResult& result) {
  Json sizes = Json::array(), verdicts = Json::array();
  for (const PlanSizeResult& size : result.sizes) sizes.push_back(json_of(size));
  for (const Verdict& verdict : result.verdicts) {
    verdicts.push_back(
        {{"name", verdict.name}, {"holds", verdict.holds}, {"detail", verdict.detail}});
  }
  const Json json{{"plan", result.name},
                  {"tune_seeds", result.tune_seeds},
                  {"report_seeds", result.report_seeds},
                  {"sizes", std::move(sizes)},
                  {"expectations", std::move(verdicts)},
                  {"failed", result.failed},
                  {"notes", result.notes}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_plan_report(const PlanResult& result, const std::filesystem::path& dir) {
  write_files(dir, {{"report.html", plan_html(result)},
                    {"report.txt", plan_table(result)},
                    {"result.json", plan_json(result)}});
}

}  // namespace thinwire::app
