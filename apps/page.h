// Pieces of a self-contained page: no scripts, no references to anything outside. Internal to the
// reports.
#pragma once

#include <string>
#include <string_view>

#include "apps/plot.h"
#include "apps/table.h"

namespace thinwire::app {

std::string page_head(std::string_view title);  // up to <main>; ends with </main></body></html>
std::string escaped(std::string_view text);
// The first columns after the row's name, `text_columns` of them, hold text and are broken.
std::string html_grid(const Grid& grid, std::string_view caption, std::size_t text_columns = 0);
std::string html_figure(const Figure& figure);

}  // namespace thinwire::app
