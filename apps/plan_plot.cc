#include "apps/plan_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "apps/gnuplot.h"
#include "apps/plot_parts.h"

namespace thinwire::app {
namespace {

constexpr std::array kShapes{7, 5, 9, 13, 11};  // of points; they go on where the colours end
constexpr const char* kNoGnuplot = "install gnuplot-nox to get plots here";

// Ids of a page are words.
std::string id_of(const std::string& name, std::size_t index) {
  std::string id = "_" + std::to_string(index) + "_";
  for (const char letter : name) {
    id += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  }
  return id;
}

std::string frame(const std::string& id, std::size_t names, const char* x, const char* x_format) {
  return fmt::format(
      "set terminal svg size 720,{} dynamic name '{}' font 'sans-serif,13'\n"
      "set xlabel '{}'\nset ylabel 'loss minus adamw, nats per byte'\nset format x '{}'\n"
      "set key outside top center horizontal noenhanced samplen 2\nset logscale x 10\n"
      "set grid lc rgb '#c0808080' lw 0.7\nset border 3 lw 1\nset tics nomirror\n"
      "set xzeroaxis lw 1 dt 3 lc rgb '#808080'\nset offsets graph 0, 0, 0.08, 0.08\n",
      picture_height(names), id, x, x_format);
}

double bytes_a_parameter(const PlanSizeResult& size, const PlanRow& row) {
  return (row.method.bytes_up + row.method.bytes_down) / static_cast<double>(size.parameters);
}

// With an interval where there are two seeds or more.
double half_or_zero(const Interval& interval) {
  return std::isfinite(interval.half) ? interval.half : 0.0;
}

// Who says nothing has no place on a logarithmic axis, and is drawn as a level.
bool is_silent(const PlanRow& row) {
  return std::isfinite(row.to_adamw.mean) && row.method.bytes_up + row.method.bytes_down == 0;
}

std::string styled(std::size_t index, const std::string& how, const std::string& label) {
  return fmt::format(" {} pt {} ps 0.9 lw 1.6 lc rgb '#{}' title '{}'", how,
                     kShapes[index / kColours.size() % kShapes.size()],
                     kColours[index % kColours.size()], harmless(label));
}

std::string pareto_script(const PlanSizeResult& size, const std::vector<ParetoPoint>& points,
                          const std::string& id) {
  std::string text =
      frame(id, size.rows.size(), "bytes up and down, a parameter and step (logarithmic)", "%g");
  std::string plots;
  for (const ParetoPoint& point : points) {
    const PlanRow& row = size.rows[point.index];
    text += fmt::format("$p{} << END_OF_BLOCK\n{} {} {}\nEND_OF_BLOCK\n", point.index, point.bytes,
                        point.gap, half_or_zero(row.to_adamw));
    plots += fmt::format("$p{} using 1:2:3{}, ", point.index,
                         styled(point.index, "with yerrorbars", row.method.method));
  }
  for (std::size_t i = 0; i < size.rows.size(); ++i) {
    if (!is_silent(size.rows[i])) continue;
    plots += fmt::format("{} with lines lw 1.4 dt (2,4) lc rgb '#{}' title '{} (no bytes)', ",
                         size.rows[i].to_adamw.mean, kColours[i % kColours.size()],
                         harmless(size.rows[i].method.method));
  }
  text += "$front << END_OF_BLOCK\n";
  for (const ParetoPoint& point : pareto_front(points)) {
    text += fmt::format("{} {}\n", point.bytes, point.gap);
  }
  return text + "END_OF_BLOCK\nplot " + plots +
         "$front using 1:2 with lines lw 1.4 dt (6,4) lc rgb '#808080' title 'front'\n";
}

std::string with_sentence(const std::string& so_far, const std::string& more) {
  return so_far + " " + more;
}

const PlanRow* find(const PlanSizeResult& size, const std::string& label) {
  for (const PlanRow& row : size.rows) {
    if (row.method.method == label && std::isfinite(row.to_adamw.mean)) return &row;
  }
  return nullptr;
}

// Of methods at two sizes or more, in the order in which the sizes name them first.
std::vector<std::string> labels_of(const PlanResult& result) {
  std::vector<std::string> seen, labels;
  const auto holds = [](const std::vector<std::string>& list, const std::string& label) {
    return std::find(list.begin(), list.end(), label) != list.end();
  };
  for (const PlanSizeResult& size : result.sizes) {
    for (const PlanRow& row : size.rows) {
      const std::string& label = row.method.method;
      if (find(size, label) == nullptr || holds(labels, label)) continue;
      (holds(seen, label) ? labels : seen).push_back(label);
    }
  }
  return labels;
}

}  // namespace

std::vector<Figure> curve_figures(const PlanResult& result, const PlanSizeResult& size) {
  CompareResult compared;
  compared.target_loss = std::nan("");
  for (const PlanRow& row : size.rows) {
    if (!row.method.seeds.empty()) compared.methods.push_back(row.method);
  }
  const auto index = static_cast<std::size_t>(&size - result.sizes.data());
  return figures(compared, id_of(size.name, index));
}

std::vector<ParetoPoint> pareto_front(std::vector<ParetoPoint> points) {
  std::sort(points.begin(), points.end(), [](const ParetoPoint& a, const ParetoPoint& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.gap < b.gap;
  });
  std::vector<ParetoPoint> front;
  for (const ParetoPoint& point : points) {
    if (front.empty() || point.gap < front.back().gap) front.push_back(point);
  }
  return front;
}

Figure pareto_figure(const PlanSizeResult& size) {
  Figure figure{
      "Gap to adamw against bytes; bars are 95 % intervals, the dashed line joins those "
      "that no other method beats in both",
      "Gap to adamw against bytes of a parameter and step.", "", "nothing to draw"};
  std::vector<ParetoPoint> points;
  for (std::size_t i = 0; i < size.rows.size(); ++i) {
    const PlanRow& row = size.rows[i];
    const double bytes = bytes_a_parameter(size, row);
    if (!std::isfinite(row.to_adamw.mean) || !(bytes > 0)) continue;
    points.push_back({bytes, row.to_adamw.mean, i});
    figure.alt = with_sentence(
        figure.alt,
        fmt::format("{}: {:+.4f} with {:.3g} bytes.", row.method.method, row.to_adamw.mean, bytes));
  }
  if (points.empty()) return figure;
  const std::string id = id_of("pareto_" + size.name, size.rows.size());
  if (auto drawn = run_gnuplot(pareto_script(size, points, id))) {
    figure.svg = inline_svg(*drawn, id, figure.alt);
  }
  figure.instead = kNoGnuplot;
  return figure;
}

Figure size_figure(const PlanResult& result) {
  Figure figure{"Gap to adamw against the size of the model; bars are 95 % intervals",
                "Gap to adamw against the number of parameters.", "", "nothing to draw"};
  const std::vector<std::string> labels = labels_of(result);
  std::string text = frame("gap_size", labels.size(), "parameters (logarithmic)", "%.0s%c"), plots;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::string rows;
    for (const PlanSizeResult& size : result.sizes) {
      const PlanRow* row = find(size, labels[i]);
      if (row == nullptr) continue;
      rows += fmt::format("{} {} {}\n", size.parameters, row->to_adamw.mean,
                          half_or_zero(row->to_adamw));
      figure.alt = with_sentence(
          figure.alt, fmt::format("{} at {}: {:+.4f}.", labels[i], size.name, row->to_adamw.mean));
    }
    if (rows.empty()) continue;
    text += fmt::format("$m{} << END_OF_BLOCK\n{}END_OF_BLOCK\n", i, rows);
    plots += fmt::format("{}$m{} using 1:2:3{}", plots.empty() ? "" : ", ", i,
                         styled(i, "with yerrorlines", labels[i]));
  }
  if (plots.empty()) return figure;
  if (auto drawn = run_gnuplot(text + "plot " + plots + "\n")) {
    figure.svg = inline_svg(*drawn, "gap_size", figure.alt);
  }
  figure.instead = kNoGnuplot;
  return figure;
}

}  // namespace thinwire::app
