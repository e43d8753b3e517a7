#include "apps/plan_cell.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/compare.h"
#include "apps/out_dir.h"
#include "apps/version.h"
#include "thinwire/error.h"
#include "thinwire/guard.h"
#include "thinwire/hash.h"

namespace thinwire::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kForm = 1;  // of the file

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Json curve_json(const std::vector<CurvePoint>& curve) {
  Json rows = Json::array();
  for (const CurvePoint& at : curve) {
    rows.push_back({at.step, finite_or_null(at.loss), at.bytes_up, at.modelled_s});
  }
  return rows;
}

std::vector<CurvePoint> curve_of(const Json& rows) {
  std::vector<CurvePoint> curve;
  for (const Json& row : rows) {
    curve.push_back(
        {row.at(0).get<std::uint64_t>(), number(row.at(1)), number(row.at(2)), number(row.at(3))});
  }
  return curve;
}

Json cell_json(const CellResult& cell, const std::string& hash) {
  const MethodResult& method = cell.method;
  Json json{{"form", kForm},
            {"hash", hash},
            {"status", to_string(cell.status)},
            {"reason", cell.reason},
            {"method", method.method},
            {"settings", method.settings},
            {"loss", finite_or_null(method.loss)},
            {"bytes_up", method.bytes_up},
            {"bytes_down", method.bytes_down},
            {"compute_s", method.compute_s},
            {"step_s", method.step_s},
            {"peak_mb", method.peak_mb},
            {"skipped", method.skipped},
            {"parameters", cell.parameters},
            {"ring_bytes", cell.ring_bytes},
            {"model", cell.model},
            {"data", cell.data},
            {"link", cell.link},
            {"machine", cell.machine},
            {"program", cell.program},
            {"wall_s", cell.wall_s}};
  if (!method.seeds.empty()) {
    json["seed"] = cell.seed().seed;
    json["first_loss"] = finite_or_null(cell.seed().first_loss);
    json["replica"] = cell.seed().hash;
    json["curve"] = curve_json(cell.seed().curve);
  }
  return json;
}

CellResult cell_of(const Json& json) {
  CellResult cell;
  cell.status = json.at("status") == "diverged" ? CellStatus::diverged : CellStatus::trained;
  cell.reason = json.at("reason").get<std::string>();
  MethodResult& method = cell.method;
  method.method = json.at("method").get<std::string>();
  method.settings = json.at("settings").get<std::string>();
  method.loss = number(json.at("loss"));
  method.bytes_up = json.at("bytes_up").get<double>();
  method.bytes_down = json.at("bytes_down").get<double>();
  method.compute_s = json.at("compute_s").get<double>();
  method.step_s = json.at("step_s").get<double>();
  method.peak_mb = json.at("peak_mb").get<double>();
  method.skipped = json.at("skipped").get<std::uint64_t>();
  cell.parameters = json.at("parameters").get<std::uint64_t>();
  cell.ring_bytes = json.at("ring_bytes").get<double>();
  for (const auto& [key, into] : {std::pair{"model", &cell.model},
                                  {"data", &cell.data},
                                  {"link", &cell.link},
                                  {"machine", &cell.machine},
                                  {"program", &cell.program}}) {
    *into = json.at(key).get<std::string>();
  }
  cell.wall_s = json.at("wall_s").get<double>();
  if (!json.contains("curve")) return cell;
  SeedResult seed;
  seed.seed = json.at("seed").get<std::uint64_t>();
  seed.first_loss = number(json.at("first_loss"));
  seed.hash = json.at("replica").get<std::string>();
  seed.curve = curve_of(json.at("curve"));
  method.seeds.push_back(std::move(seed));
  return cell;
}

CellResult cell_of(const CompareResult& result) {
  CellResult cell;
  cell.method = result.methods.front();
  cell.parameters = result.parameters;
  cell.ring_bytes = result.ring_bytes;
  cell.model = result.model;
  cell.data = result.data;
  cell.link = result.link;
  cell.machine = result.machine;
  const std::vector<CurvePoint>& curve = cell.seed().curve;
  const bool learned = curve.back().loss < curve.front().loss;  // false where one is NaN
  cell.status = learned ? CellStatus::trained : CellStatus::diverged;
  if (!learned) {
    cell.reason = std::isfinite(curve.back().loss) ? "ended no better than it began"
                                                   : "the loss is not finite";
  }
  return cell;
}

}  // namespace

std::string to_string(CellStatus status) {
  if (status == CellStatus::trained) return "trained";
  return status == CellStatus::diverged ? "diverged" : "failed";
}

std::string cell_hash(const FlatConfig& config, std::uint64_t data_hash,
                      const OptimizerCatalog& catalog) {
  FlatConfig anywhere = config;
  anywhere.erase("run.data");
  const std::string settings = resolve(anywhere, catalog).config;
  const std::uint64_t hash = hash_fold(hash64(settings + version()), data_hash);
  return fmt::format("{:016x}", hash_fold(hash, kForm));
}

void run_cell(const CellCommand& command, const OptimizerCatalog& catalog,
              const std::atomic<bool>& stop) {
  const std::filesystem::path path = command.result;
  RunOptions options = resolve(read_config_file(command.config), catalog);
  options.out = path.parent_path();
  const auto begin = std::chrono::steady_clock::now();
  CellResult cell;
  try {
    const TrainCommand plain;
    cell = cell_of(compare(options, catalog, "", stop, plain));
  } catch (const Spike& spike) {  // --guard stop
    cell.status = CellStatus::diverged;
    cell.reason = spike.what();
    cell.method.loss = std::numeric_limits<double>::quiet_NaN();
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  cell.wall_s = wall.count();
  cell.program = fmt::format("{:016x}", hash64(std::string_view(bytes_of("/proc/self/exe"))));
  write_files(options.out,
              {{path.filename().string(), cell_json(cell, command.hash).dump() + "\n"}});
}

std::optional<CellResult> read_cell(const std::filesystem::path& path, const std::string& hash,
                                    bool& stale) {
  std::error_code ignored;
  stale = std::filesystem::exists(path, ignored);
  if (!stale) return std::nullopt;
  const Json json = Json::parse(bytes_of(path), nullptr, false);
  if (!json.is_object() || json.value("form", 0) != kForm || json.value("hash", "") != hash) {
    return std::nullopt;
  }
  try {
    CellResult cell = cell_of(json);
    stale = false;
    return cell;
  } catch (const Json::exception&) {  // the file was written by another hand
    return std::nullopt;
  }
}

}  // namespace thinwire::app
