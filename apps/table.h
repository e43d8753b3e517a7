// Figures as people read them, and the comparison as plain text for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/results.h"

namespace thinwire::app {

inline constexpr std::size_t kTableColumns = 80;  // no line of table() is longer

std::string bytes_text(double bytes);      // "327 B", "1.23 MB"; SI prefixes
std::string seconds_text(double seconds);  // "45.1 ms", "12.3 min"
std::string ratio_text(double ratio);      // "1/2150"; "2.0x" where more is sent; "-": nothing
std::string loss_text(const MethodResult& method);  // "2.3145 +- 0.0012"
std::string gap_text(const MethodResult& method);   // "+0.0156"
std::string time_to_loss_text(const MethodResult& method);
std::string count_text(double value);  // "12,345"

// The rows under their headings, the first column to the left, the others to the right.
struct Grid {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;
};
std::string grid_text(const Grid& grid);                     // lines of at most kTableColumns
std::string wrap(std::string_view text, std::size_t width);  // as lines; long words are broken
Grid loss_grid(const CompareResult& result);                 // loss and bytes
Grid time_grid(const CompareResult& result);  // time, speed, memory, and skips where there are any

// What the columns mean: link, target loss, what is counted. Sentences, no line breaks.
std::vector<std::string> notes(const CompareResult& result);

// Both grids and the notes in lines of at most kTableColumns.
std::string table(const CompareResult& result);

}  // namespace thinwire::app
