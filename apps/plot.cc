#include "apps/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "apps/gnuplot.h"
#include "apps/plot_parts.h"
#include "apps/table.h"

namespace thinwire::app {
namespace {

struct Point {
  double x;
  double loss;
};
using Line = std::vector<Point>;

struct Lines {
  std::string method;
  std::vector<Line> seeds;
  Line mean;
};

struct Axis {
  const char* id;  // prefix of ids within the page
  const char* caption;
  const char* label;
  const char* format;  // of gnuplot's tics
  bool logarithmic;
  std::function<double(const CurvePoint&)> x;
  std::function<std::string(double)> text;  // an x in words
};

// The untrained start, at 0 of everything, is left out: it has no place on a logarithmic axis, and
// on the others it takes most of the height.
bool shows(const Point& point) {
  return std::isfinite(point.loss) && std::isfinite(point.x) && point.x > 0;
}

Line line_of(const SeedResult& seed, const Axis& axis) {
  Line line;
  for (const CurvePoint& at : seed.curve) {
    Point point{axis.x(at), at.loss};
    if (shows(point)) line.push_back(point);
  }
  return line;
}

// Over the steps that every seed was evaluated at.
Line mean_of(const MethodResult& method, const Axis& axis) {
  struct Sum {
    double x = 0.0, loss = 0.0;
    std::size_t count = 0;
  };
  std::map<std::uint64_t, Sum> sums;
  for (const SeedResult& seed : method.seeds) {
    for (const CurvePoint& at : seed.curve) {
      Sum& sum = sums[at.step];
      sum.x += axis.x(at);
      sum.loss += at.loss;
      ++sum.count;
    }
  }
  Line line;
  for (const auto& [step, sum] : sums) {
    if (sum.count != method.seeds.size()) continue;
    double count = static_cast<double>(sum.count);
    Point point{sum.x / count, sum.loss / count};
    if (shows(point)) line.push_back(point);
  }
  return line;
}

std::vector<Lines> lines_of(const CompareResult& result, const Axis& axis) {
  std::vector<Lines> all;
  for (const MethodResult& method : result.methods) {
    Lines lines{method.method, {}, mean_of(method, axis)};
    for (const SeedResult& seed : method.seeds) lines.seeds.push_back(line_of(seed, axis));
    all.push_back(std::move(lines));
  }
  return all;
}

std::string block(const std::string& name, const std::vector<Line>& lines) {
  std::string text = "$" + name + " << END_OF_BLOCK\n";
  for (const Line& line : lines) {
    for (const Point& point : line) text += fmt::format("{} {}\n", point.x, point.loss);
    text += "\n";
  }
  return text + "END_OF_BLOCK\n";
}

// A diverged run must not press the others into the ground line: the picture ends a little above
// the highest starting point.
double top_of(const std::vector<Lines>& all) {
  double first = 0.0, highest = 0.0;
  for (const Lines& lines : all) {
    if (!lines.mean.empty()) first = std::max(first, lines.mean.front().loss);
    for (const Line& line : lines.seeds) {
      for (const Point& point : line) highest = std::max(highest, point.loss);
    }
  }
  return std::min(highest, first * 1.2);
}

bool anything_in(const std::vector<Lines>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Lines& lines) { return !lines.mean.empty(); });
}

bool has_seed_lines(const CompareResult& result) {
  return std::any_of(result.methods.begin(), result.methods.end(),
                     [](const MethodResult& method) { return method.seeds.size() > 1; });
}

std::string curves_of(const Lines& lines, std::size_t index) {
  const char* colour = kColours[index % kColours.size()];
  const char* dash = kDashes[(index + index / kColours.size()) % kDashes.size()];
  std::string text;
  if (lines.seeds.size() > 1) {
    text += fmt::format("$seeds{} using 1:2 with lines lw 1 dt 1 lc rgb '#70{}' notitle, ", index,
                        colour);
  }
  const char* shape = lines.mean.size() > 1 ? "lines" : "points pt 7 ps 0.6";
  return text + fmt::format("$mean{} using 1:2 with {} lw 2.4 dt {} lc rgb '#{}' title '{}'", index,
                            shape, dash, colour, harmless(lines.method));
}

std::string script_of(const Axis& axis, const std::vector<Lines>& all, double target) {
  std::string text = fmt::format(
      "set terminal svg size 720,{} dynamic name '{}' font 'sans-serif,13'\n"
      "set xlabel '{}'\nset ylabel 'held-out loss, nats per byte'\nset format x '{}'\n"
      "set key outside top center horizontal noenhanced samplen 3\n"
      "set grid lc rgb '#c0808080' lw 0.7\nset border 3 lw 1\nset tics nomirror\n",
      picture_height(all.size()), axis.id, axis.label, axis.format);
  if (axis.logarithmic) text += "set logscale x 10\n";
  text += fmt::format("set yrange [*:{}]\n", top_of(all) * 1.02);
  std::string plots;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].mean.empty()) continue;
    text += block(fmt::format("seeds{}", i), all[i].seeds);
    text += block(fmt::format("mean{}", i), {all[i].mean});
    plots += (plots.empty() ? "" : ", ") + curves_of(all[i], i);
  }
  if (target > 0 && target < top_of(all)) {
    plots += fmt::format(", {} with lines lw 1 dt 3 lc rgb '#808080' title 'target loss'", target);
  }
  return text + "plot " + plots + "\n";
}

std::string alt_of(const Axis& axis, const CompareResult& result, const std::vector<Lines>& all) {
  std::string text = std::string(axis.caption) + ".";
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].mean.empty()) continue;
    text += fmt::format(" {} is at {:.4f} after {}.", result.methods[i].method,
                        all[i].mean.back().loss, axis.text(all[i].mean.back().x));
  }
  return text;
}

}  // namespace

std::vector<Figure> figures(const CompareResult& result, const std::string& id) {
  const std::array<Axis, 3> axes{
      {{"loss_steps", "Held-out loss against steps", "steps", "%g", false,
        [](const CurvePoint& at) { return static_cast<double>(at.step); },
        [](double x) { return count_text(x) + " steps"; }},
       {"loss_bytes", "Held-out loss against bytes sent by one site",
        "bytes sent by one site (logarithmic)", "%.0s %cB", true,
        [](const CurvePoint& at) { return at.bytes_up; }, bytes_text},
       {"loss_time", "Held-out loss against time on the modelled link",
        "seconds on the modelled link (logarithmic)", "%g", true,
        [](const CurvePoint& at) { return at.modelled_s; }, seconds_text}}};
  std::vector<Figure> all;
  for (const Axis& axis : axes) {
    std::vector<Lines> lines = lines_of(result, axis);
    Figure figure{axis.caption, alt_of(axis, result, lines), "", "nothing to draw"};
    if (anything_in(lines)) {
      auto drawn = run_gnuplot(script_of(axis, lines, result.target_loss));
      if (drawn) figure.svg = inline_svg(*drawn, axis.id + id, figure.alt);
      if (drawn && has_seed_lines(result)) {
        figure.caption += "; thin lines are seeds, the thick line is their mean";
      }
      figure.instead = "install gnuplot-nox to get plots here";
    }
    all.push_back(std::move(figure));
  }
  return all;
}

}  // namespace thinwire::app
