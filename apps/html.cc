#include "apps/html.h"

#include <fmt/format.h>

#include <string_view>

#include "apps/page.h"
#include "apps/table.h"

namespace thinwire::app {
namespace {

std::string about(const CompareResult& result) {
  std::string text = "<dl>\n";
  auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escaped(value));
  };
  row("Model", result.model);
  row("Data", result.data);
  row("Link", result.link);
  row("Sites", fmt::format("{} (ranks in each: {})", result.sites, result.ranks));
  row("Steps", count_text(static_cast<double>(result.steps)));
  row("Machine", result.machine);
  return text + "</dl>\n";
}

Grid settings_grid(const CompareResult& result) {
  Grid grid{{"method", "resolved settings", "replica hash of each seed"}, {}};
  for (const MethodResult& method : result.methods) {
    std::string hashes;
    for (const SeedResult& seed : method.seeds) {
      hashes += fmt::format("{}{}:{}", hashes.empty() ? "" : ", ", seed.seed, seed.hash);
    }
    grid.rows.push_back({method.method, method.settings, hashes});
  }
  return grid;
}

}  // namespace

std::string report_html(const CompareResult& result, const std::vector<Figure>& figures) {
  std::string names;
  for (const MethodResult& method : result.methods) {
    names += (names.empty() ? "" : ", ") + escaped(method.method);
  }
  std::string page = page_head("thinwire: a comparison of optimizers");
  page += "<h1>Comparison: " + names + "</h1>\n" + about(result);
  page += "<h2>Results</h2>\n" + html_grid(loss_grid(result), "Loss, and bytes of a site and step");
  page += html_grid(time_grid(result), "Time, speed and memory");
  for (const std::string& note : notes(result)) {
    page += "<p class=\"note\">" + escaped(note) + "</p>\n";
  }
  page += "<h2>Curves</h2>\n";
  for (const Figure& figure : figures) page += html_figure(figure);
  page += "<h2>Settings</h2>\n" + html_grid(settings_grid(result), "What each method ran with", 2);
  page += "<h2>How to run it again</h2>\n<pre>" + escaped(result.command) + "</pre>\n";
  page += "<h2>Resolved configuration</h2>\n<pre>" + escaped(result.config) + "</pre>\n";
  return page + "</main>\n</body>\n</html>\n";
}

}  // namespace thinwire::app
