#include "apps/plot_parts.h"

#include <fmt/format.h>

#include <cctype>

namespace thinwire::app {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

std::string html_safe_attribute(std::string text) {
  replace_all(text, "&", "&amp;");
  replace_all(text, "\"", "&quot;");
  replace_all(text, "<", "&lt;");
  return text;
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string safe;
  for (char letter : text.substr(0, 60)) {
    bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                 std::string_view(" .,:;=+-_()/").find(letter) != std::string_view::npos;
    safe += plain ? letter : '_';
  }
  return safe;
}

int picture_height(std::size_t names) {
  constexpr std::size_t kInARow = 3, kFree = 2;  // rows that the usual height has room for
  const std::size_t rows = (names + kInARow - 1) / kInARow;
  return 420 + 20 * static_cast<int>(rows > kFree ? rows - kFree : 0);
}

std::string inline_svg(const std::string& document, const std::string& id, const std::string& alt) {
  std::size_t begin = document.find("<svg"), end = document.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos) return "";
  std::string svg = document.substr(begin, end + 6 - begin);
  for (const char* name : {"gnuplot_canvas", "gpDot", "gpPt", "textbox", "greybox"}) {
    replace_all(svg, fmt::format("id='{}", name), fmt::format("id='{}_{}", id, name));
    replace_all(svg, fmt::format("id=\"{}", name), fmt::format("id=\"{}_{}", id, name));
    replace_all(svg, fmt::format("'#{}", name), fmt::format("'#{}_{}", id, name));
  }
  replace_all(svg, "'black'", "'currentColor'");
  replace_all(svg, "\"black\"", "\"currentColor\"");
  svg.replace(0, 4, "<svg role=\"img\" aria-label=\"" + html_safe_attribute(alt) + "\"");
  return svg;
}

}  // namespace thinwire::app
