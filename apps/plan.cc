#include "apps/plan.h"

#include <algorithm>
#include <charconv>

#include "models/text.h"

namespace thinwire::app {
namespace {

std::string shortest(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::string describe(const PlanPoint& point) {
  std::string text;
  for (const auto& [key, value] : point.settings)
    text.append(key).append("=").append(value).append(" ");
  return text + "lr=" + shortest(point.lr);
}

std::uint64_t parameters_of(const GptOptions& options) {
  const Text text = Text::from_bytes(std::vector<std::uint8_t>(40 * (options.context + 1)));
  std::uint64_t count = 0;
  for (const ParameterSpec& one : Gpt(options, text, {}).parameters()) {
    std::uint64_t values = one.trainable ? 1 : 0;
    for (const std::size_t side : one.shape) values *= side;
    count += values;
  }
  return count;
}

FlatConfig cell_config(const PlanSize& size, const PlanMethod& method, const PlanPoint& point,
                       std::uint64_t seed) {
  FlatConfig config = size.config;
  std::string text = method.method;
  for (const auto& [key, value] : point.settings)
    text.append(":").append(key).append("=").append(value);
  config["run.methods"] = text + ":lr=" + shortest(point.lr);
  config["run.seed"] = std::to_string(seed);
  config["run.seeds"] = "1";
  if (method.alone) {
    config["run.sites"] = "1";
    config["run.batch"] = std::to_string(size.batch / size.sites);
  }
  return config;
}

std::vector<PlanPoint> grid_points(const PlanMethod& method) {
  std::vector<PlanPoint> points(1);
  for (const auto& [key, values] : method.grid) {
    std::vector<PlanPoint> more;
    for (const PlanPoint& point : points) {
      for (const std::string& value : values) {
        more.push_back(point);
        more.back().settings[key] = value;
      }
    }
    points = std::move(more);
  }
  std::vector<PlanPoint> all;
  for (const PlanPoint& point : points) {
    for (const float lr : method.lrs) {
      all.push_back(point);
      all.back().lr = lr;
    }
  }
  return all;
}

bool takes_part(const PlanMethod& method, const PlanSize& size) {
  return method.sizes.empty() ||
         std::find(method.sizes.begin(), method.sizes.end(), size.name) != method.sizes.end();
}

}  // namespace thinwire::app
