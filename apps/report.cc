#include "apps/report.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/html.h"
#include "apps/plot.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::ordered_json;

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// The lr among "delay=0 k=8 lr=0.008"; NaN when there is none.
double lr_of(std::string_view settings) {
  constexpr std::string_view kName = "lr=";
  for (std::size_t at = settings.find(kName); at != std::string_view::npos;
       at = settings.find(kName, at + 1)) {
    if (at > 0 && settings[at - 1] != ' ') continue;  // "outer_lr="
    double value = 0.0;
    const char* begin = settings.data() + at + kName.size();
    auto [stop, error] = std::from_chars(begin, settings.data() + settings.size(), value);
    if (error == std::errc()) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Json json_of(const SeedResult& seed) {
  double loss = seed.curve.empty() ? NAN : seed.curve.back().loss;
  return {{"seed", seed.seed}, {"loss", finite_or_null(loss)}, {"hash", seed.hash}};
}

Json json_of(const StepTimes& times) {
  return {{"compute_s", times.compute_s},
          {"gather_wait_s", times.gather_wait_s},
          {"reduce_wait_s", times.reduce_wait_s},
          {"extract_s", times.extract_s},
          {"exchange_wait_s", times.exchange_wait_s},
          {"apply_s", times.apply_s},
          {"total_s", times.total_s}};
}

Json json_of(const MethodResult& method) {
  Json seeds = Json::array();
  for (const SeedResult& seed : method.seeds) seeds.push_back(json_of(seed));
  double to_loss_s = method.time_to_loss_s.value_or(NAN);
  return {{"method", method.method},
          {"settings", method.settings},
          {"lr", finite_or_null(lr_of(method.settings))},
          {"loss", finite_or_null(method.loss)},
          {"loss_sd", finite_or_null(method.loss_sd)},
          {"gap", finite_or_null(method.gap)},
          {"bytes_up", finite_or_null(method.bytes_up)},
          {"bytes_down", finite_or_null(method.bytes_down)},
          {"ratio_up", finite_or_null(method.ratio_up)},
          {"ratio_down", finite_or_null(method.ratio_down)},
          {"compute_s", finite_or_null(method.compute_s)},
          {"step_s", finite_or_null(method.step_s)},
          {"time_to_loss_s", finite_or_null(to_loss_s)},
          {"tokens_per_s", finite_or_null(method.tokens_per_s)},
          {"peak_mb", finite_or_null(method.peak_mb)},
          {"times", json_of(method.times)},
          {"exposed_share", method.times.exposed_share()},
          {"skipped", method.skipped},
          {"hash", method.seeds.empty() ? std::string() : method.seeds.front().hash},
          {"seeds", std::move(seeds)}};
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

}  // namespace

std::string summary_json(const CompareResult& result) {
  Json methods = Json::array();
  for (const MethodResult& method : result.methods) methods.push_back(json_of(method));
  // Bytes that are no UTF-8 (a path in a setting) are replaced: results are not lost over them.
  return methods.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string curves_csv(const CompareResult& result) {
  std::string text = "method,seed,step,loss,bytes_up,modelled_s\n";
  for (const MethodResult& method : result.methods) {
    for (const SeedResult& seed : method.seeds) {
      for (const CurvePoint& at : seed.curve) {
        text += fmt::format("{},{},{},{},{},{}\n", csv_cell(method.method), seed.seed, at.step,
                            at.loss, at.bytes_up, at.modelled_s);
      }
    }
  }
  return text;
}

void write_report(const CompareResult& result, const std::filesystem::path& dir) {
  write_files(dir, {{"report.html", report_html(result, figures(result))},
                    {"curves.csv", curves_csv(result)},
                    {"summary.json", summary_json(result)},
                    {"config.toml", result.config}});
}

}  // namespace thinwire::app
