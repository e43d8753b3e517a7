#include <fmt/format.h>

#include <cmath>

#include "apps/page.h"
#include "apps/plan_report.h"
#include "apps/plan_table.h"

namespace thinwire::app {
namespace {

std::string fixed(double value) { return fmt::format("{:.4f}", value); }

std::string paragraphs(const std::vector<std::string>& lines, const char* begin) {
  std::string text;
  for (const std::string& line : lines) text += begin + escaped(line) + "</p>\n";
  return text;
}

std::string about(const PlanResult& result) {
  std::string text = "<dl>\n";
  const auto row = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    text += std::string("<dt>") + name + "</dt><dd>" + escaped(value) + "</dd>\n";
  };
  if (!result.sizes.empty()) {
    row("Data", result.sizes.front().data);
    row("Link", result.sizes.front().link);
  }
  row("Tuned on", seeds_text(result.tune_seeds));
  row("Shown on", seeds_text(result.report_seeds));
  row("Machine", result.machine);
  return text + "</dl>\n";
}

std::string expectations(const PlanResult& result) {
  if (result.verdicts.empty()) return "";
  std::string text = "<h2>Expectations</h2>\n<ul>\n";
  for (const Verdict& verdict : result.verdicts) {
    const std::string line = escaped(verdict_text(verdict));
    text += "<li>" + (verdict.holds ? line : "<strong>" + line + "</strong>") + "</li>\n";
  }
  return text + "</ul>\n";
}

// Of each seed: a mean hides which one it was.
Grid seeds_grid(const PlanResult& result, const PlanSizeResult& size) {
  Grid grid{{"method"}, {}};
  for (const std::uint64_t seed : result.report_seeds) {
    grid.headings.push_back("seed " + std::to_string(seed));
  }
  grid.headings.push_back("standard deviation");
  for (const PlanRow& row : size.rows) {
    std::vector<std::string> cells{row.method.method};
    for (std::size_t i = 0; i < result.report_seeds.size(); ++i) {
      const double loss = i < row.losses.size() ? row.losses[i] : std::nan("");
      cells.push_back(std::isfinite(loss) ? fixed(loss) : "-");
    }
    cells.push_back(std::isfinite(row.method.loss_sd) ? fixed(row.method.loss_sd) : "-");
    grid.rows.push_back(std::move(cells));
  }
  return grid;
}

std::string size_section(const PlanResult& result, const PlanSizeResult& size) {
  std::string text = "<h2>" + escaped(size_heading(size)) + "</h2>\n";
  text += html_grid(gap_grid(result, size), "Loss, and paired differences with 95 % intervals");
  text += html_grid(wire_grid(size), "Bytes of a site and step, and modelled time");
  text += html_figure(pareto_figure(size));
  for (const Figure& figure : curve_figures(result, size)) text += html_figure(figure);
  text += html_grid(seeds_grid(result, size), "Last held-out loss of each seed");
  text += html_grid(chosen_grid(size), "What the tuning chose", 2);
  if (!size.tuning.empty()) text += html_grid(tuning_grid(size), "Every run of the tuning");
  return text;
}

}  // namespace

std::string plan_html(const PlanResult& result) {
  std::string page = page_head("thinwire: " + result.name);
  page += "<h1>Experiment: " + escaped(result.name) + "</h1>\n" + about(result);
  page += paragraphs(plan_warnings(result), "<p>") + expectations(result);
  for (const PlanSizeResult& size : result.sizes) page += size_section(result, size);
  if (result.sizes.size() > 1) page += "<h2>Sizes</h2>\n" + html_figure(size_figure(result));
  page += "<h2>How to read it</h2>\n" + paragraphs(plan_notes(result), "<p class=\"note\">");
  page += "<h2>How to run it again</h2>\n<pre>" + escaped(result.command) + "</pre>\n";
  page += "<h2>The plan</h2>\n<pre>" + escaped(result.text) + "</pre>\n";
  return page + "</main>\n</body>\n</html>\n";
}

}  // namespace thinwire::app
