#include <algorithm>
#include <cstdio>
#include <sstream>

#include "transports/hub_difference_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kLineMax = 200;

std::string shown(std::string line, bool there) {
  if (!there) return "nothing more";
  if (line.size() > kLineMax) line = line.substr(0, kLineMax) + "...";
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return "\"" + line + "\"";
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

std::string difference(const Hello& ours, const Hello& theirs) {
  std::istringstream left(ours.agreed), right(theirs.agreed);
  for (;;) {
    std::string a, b;
    const bool in_left = static_cast<bool>(std::getline(left, a));
    const bool in_right = static_cast<bool>(std::getline(right, b));
    if (!in_left && !in_right) break;
    if (in_left == in_right && a == b) continue;
    return "the settings differ: the run has " + shown(a, in_left) + ", site " + theirs.site +
           " has " + shown(b, in_right);
  }
  return "the agreements differ though the settings read alike: " + hex(ours.agreement) +
         " in this run, " + hex(theirs.agreement) + " at site " + theirs.site +
         "; the model's layout or the build is another one";
}

}  // namespace thinwire::hub
