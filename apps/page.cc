#include "apps/page.h"

#include <fmt/format.h>

namespace thinwire::app {
namespace {

constexpr std::string_view kHead =
    R"(<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { color-scheme: light dark; --text: #1c1e21; --faint: #5b6168; --back: #ffffff;
        --line: #d5d9de; --panel: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8ea; --faint: #a2a9b1; --back: #16181b; --line: #3a3f45; --panel: #202327; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
       max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt, caption, figcaption, .note { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-bottom: 1.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom-width: 2px; font-weight: 600; }
tbody th { font-weight: 600; }
th.text, td.text { text-align: left; white-space: normal; overflow-wrap: break-word; }
.note { font-size: .9rem; margin: .5rem 0; }
figure { margin: 1rem 0 1.8rem; }
figure svg { width: 100%; height: auto; color: var(--text); }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .8rem;
      overflow-x: auto; font-size: .875rem; line-height: 1.45; }
</style>
</head>
<body>
<main>
)";

// The text tables write plus-minus in ASCII.
std::string typeset(std::string_view cell) {
  std::string text = escaped(cell);
  std::size_t at = text.find("+-");
  return at == std::string::npos ? text : text.replace(at, 2, "&plusmn;");
}

}  // namespace

std::string page_head(std::string_view title) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
             "charset=\"utf-8\">\n<title>{}</title>\n",
             escaped(title)) +
         std::string(kHead);
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string html_grid(const Grid& grid, std::string_view caption, std::size_t text_columns) {
  std::string text = fmt::format("<div class=\"wide\"><table>\n<caption>{}</caption>\n", caption);
  text += "<thead><tr>";
  auto left = [&](std::size_t column) {
    return column > 0 && column <= text_columns ? std::string_view(" class=\"text\"") : "";
  };
  for (std::size_t i = 0; i < grid.headings.size(); ++i) {
    text += fmt::format("<th scope=\"col\"{}>{}</th>", left(i), typeset(grid.headings[i]));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : grid.rows) {
    text += "<tr><th scope=\"row\">" + typeset(row[0]) + "</th>";
    for (std::size_t i = 1; i < row.size(); ++i) {
      text += fmt::format("<td{}>{}</td>", left(i), typeset(row[i]));
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table></div>\n";
}

std::string html_figure(const Figure& figure) {
  std::string picture = figure.svg;
  if (picture.empty()) {
    picture =
        "<p>" + escaped(figure.alt) + "</p>\n<p class=\"note\">" + escaped(figure.instead) + "</p>";
  }
  return "<figure>\n" + picture + "\n<figcaption>" + escaped(figure.caption) +
         ".</figcaption>\n</figure>\n";
}

}  // namespace thinwire::app
