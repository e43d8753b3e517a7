#include "src/core/wrap.h"

#include <map>

namespace thinwire {

std::vector<ParameterSpec> wrapped(std::vector<ParameterSpec> parameters, const Wrap& wrap) {
  if (wrap.bytes == 0) return parameters;
  std::map<int, double> bytes;  // of each declared unit; a double does not overflow
  for (const ParameterSpec& parameter : parameters) {
    double size = sizeof(float);
    for (std::size_t extent : parameter.shape) size *= static_cast<double>(extent);
    bytes[parameter.unit] += size;
  }
  std::map<int, int> number;
  int next = 0;
  double filled = 0.0;
  int expected = 0;
  for (const auto& [unit, size] : bytes) {
    if (unit != expected++) return parameters;
    number[unit] = next;
    filled += size;
    if (wrap.bytes == kWrapAll || filled < static_cast<double>(wrap.bytes)) continue;
    ++next;
    filled = 0.0;
  }
  for (ParameterSpec& parameter : parameters) parameter.unit = number[parameter.unit];
  return parameters;
}

}  // namespace thinwire
