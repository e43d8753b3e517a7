#include "apps/plan_stats.h"

#include <array>
#include <cmath>
#include <limits>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<double, 30> kStudent975{
    12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356, 2.4469118511,
    2.3646242516,  2.3060041352, 2.2621571628, 2.2281388520, 2.2009851601, 2.1788128297,
    2.1603686565,  2.1447866879, 2.1314495456, 2.1199052992, 2.1098155778, 2.1009220402,
    2.0930240544,  2.0859634473, 2.0796138447, 2.0738730679, 2.0686576104, 2.0638985616,
    2.0595385528,  2.0555294386, 2.0518305165, 2.0484071418, 2.0452296421, 2.0422724563};

}  // namespace

double student_t_975(std::size_t degrees) {
  TW_CHECK(degrees >= 1 && degrees <= kStudent975.size());
  return kStudent975[degrees - 1];
}

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return values.empty() ? kNothing : sum / static_cast<double>(values.size());
}

double standard_deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return kNothing;
  const double mean = mean_of(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

Interval paired_difference(const std::vector<double>& a, const std::vector<double>& b) {
  TW_CHECK(a.size() == b.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  Interval result{mean_of(differences), kNothing, differences.size()};
  if (differences.size() < 2) return result;
  result.half = student_t_975(differences.size() - 1) * standard_deviation_of(differences) /
                std::sqrt(static_cast<double>(differences.size()));
  return result;
}

}  // namespace thinwire::app
