#include "apps/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace thinwire::app {
namespace {

constexpr std::size_t kNameColumnsMin = 8;
constexpr std::string_view kNothing = "-";

// Three digits that matter, as 1.23, 12.3, 123, 1234.
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

std::vector<std::size_t> widths_of(const Grid& grid) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < grid.headings.size(); ++column) {
    widths.push_back(grid.headings[column].size());
    for (const auto& row : grid.rows) widths[column] = std::max(widths[column], row[column].size());
  }
  return widths;
}

}  // namespace

std::string wrap(std::string_view text, std::size_t width) {
  std::string lines, line;
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    std::size_t taken = std::min(end, width);  // a longer word is broken
    std::string_view word = text.substr(0, taken);
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    text.remove_prefix(taken == end && end < text.size() ? taken + 1 : taken);
  }
  return lines + line + "\n";
}

std::string grid_text(const Grid& grid) {
  std::vector<std::size_t> widths = widths_of(grid);
  std::size_t others = 0;
  for (std::size_t column = 1; column < widths.size(); ++column) others += widths[column] + 2;
  std::size_t room = kTableColumns > others ? kTableColumns - others : 0;
  widths[0] = std::min(widths[0], std::max(room, kNameColumnsMin));
  auto line = [&](const std::vector<std::string>& cells) {
    std::string text = fmt::format("{:<{}}", cut(cells[0], widths[0]), widths[0]);
    for (std::size_t i = 1; i < cells.size(); ++i) {
      text += fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    return cut(text, kTableColumns) + "\n";
  };
  std::string text = line(grid.headings);
  for (const auto& row : grid.rows) text += line(row);
  return text;
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return std::string(kNothing);
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  bool whole = unit == 0 && (bytes == std::floor(bytes) || bytes >= 100);
  std::string digits = whole ? fmt::format("{:.0f}", bytes) : three_digits(bytes);
  return digits + " " + kUnits[unit];
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return std::string(kNothing);
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return three_digits(seconds) + " s";
  if (seconds < 99.95 * 60) return three_digits(seconds / 60) + " min";
  return three_digits(seconds / 3600) + " h";
}

std::string ratio_text(double ratio) {
  if (!std::isfinite(ratio) || ratio <= 0) return std::string(kNothing);
  if (ratio >= 9.95) return fmt::format("1/{:.0f}", ratio);
  if (ratio >= 1.05) return fmt::format("1/{:.1f}", ratio);
  if (ratio > 0.95) return "1";
  return fmt::format("{:.1f}x", 1 / ratio);
}

std::string loss_text(const MethodResult& method) {
  if (!std::isfinite(method.loss)) return "diverged";
  if (method.seeds.size() < 2) return fmt::format("{:.4f}", method.loss);
  return fmt::format("{:.4f} +- {:.4f}", method.loss, method.loss_sd);
}

std::string gap_text(const MethodResult& method) {
  if (!std::isfinite(method.gap)) return std::string(kNothing);
  return method.gap == 0 ? "0" : fmt::format("{:+.4f}", method.gap);
}

std::string time_to_loss_text(const MethodResult& method) {
  return method.time_to_loss_s ? seconds_text(*method.time_to_loss_s) : "not reached";
}

std::string count_text(double value) {
  if (!std::isfinite(value)) return std::string(kNothing);
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) {
    if (digits[at - 4] != '-') digits.insert(at - 3, ",");
  }
  return digits;
}

Grid loss_grid(const CompareResult& result) {
  Grid grid{{"method", "held-out loss", "gap", "up/step", "down/step", "up/ring", "down/ring"}, {}};
  for (const MethodResult& method : result.methods) {
    grid.rows.push_back({method.method, loss_text(method), gap_text(method),
                         bytes_text(method.bytes_up), bytes_text(method.bytes_down),
                         ratio_text(method.ratio_up), ratio_text(method.ratio_down)});
  }
  return grid;
}

Grid time_grid(const CompareResult& result) {
  Grid grid{{"method", "step time", "time to loss", "tokens/s", "exposed", "peak MB"}, {}};
  auto skips = [](const MethodResult& method) { return method.skipped > 0; };
  bool any_skipped = std::any_of(result.methods.begin(), result.methods.end(), skips);
  if (any_skipped) grid.headings.push_back("skipped");
  for (const MethodResult& method : result.methods) {
    grid.rows.push_back({method.method, seconds_text(method.step_s), time_to_loss_text(method),
                         count_text(method.tokens_per_s),
                         fmt::format("{:.0f} %", 100 * method.times.exposed_share()),
                         count_text(method.peak_mb)});
    if (any_skipped) grid.rows.back().push_back(count_text(static_cast<double>(method.skipped)));
  }
  return grid;
}

std::vector<std::string> notes(const CompareResult& result) {
  std::vector<std::string> all{
      "Loss: mean over seeds of the last held-out loss, nats per byte" +
          std::string("; gap: loss minus adamw's."),
      "Bytes: of one site and step, counted where frames meet the transport; 1/2150 is that part "
      "of an "
      "fp32 ring all-reduce of the model (" +
          bytes_text(result.ring_bytes) + " each way).",
      "Step time: measured computation and modelled exchange over the link " + result.link +
          (std::isfinite(result.target_loss)
               ? "; time to loss: at this speed, until a held-out loss of " +
                     fmt::format("{:.4f}", result.target_loss)
               : std::string("; every method diverged, so there is no time to a loss")) +
          "."};
  all.push_back(
      "Exposed: the part of a step's time on this machine in which a rank only waits for "
      "a link.");
  for (const MethodResult& method : result.methods) {
    if (method.skipped == 0) continue;
    all.push_back("Skipped: contributions left out because a gradient was not finite.");
    break;
  }
  return all;
}

std::string table(const CompareResult& result) {
  auto counted = [](std::uint64_t count, const char* noun) {
    return count_text(static_cast<double>(count)) + " " + noun + (count == 1 ? "" : "s");
  };
  std::size_t seeds = result.methods.empty() ? 0 : result.methods.front().seeds.size();
  std::string text = wrap(result.model + "; " + result.data, kTableColumns);
  text += wrap(counted(static_cast<std::uint64_t>(result.sites), "site") + " of " +
                   counted(static_cast<std::uint64_t>(result.ranks), "rank") + ", " +
                   counted(result.steps, "step") + ", " + counted(seeds, "seed"),
               kTableColumns);
  text += "\n" + grid_text(loss_grid(result)) + "\n" + grid_text(time_grid(result)) + "\n";
  for (const std::string& note : notes(result)) text += wrap(note, kTableColumns);
  return text;
}

}  // namespace thinwire::app
