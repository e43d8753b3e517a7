#include <algorithm>
#include <array>
#include <cstddef>

#include "transports/ordered_mean_internal.h"

namespace thinwire {

void ordered_mean(std::span<const float* const> sources, Floats out) {
  std::array<float, 1024> sum;
  const float count = static_cast<float>(sources.size());
  for (std::size_t done = 0; done < out.size(); done += sum.size()) {
    const std::size_t size = std::min(sum.size(), out.size() - done);
    std::copy_n(sources[0] + done, size, sum.data());
    for (std::size_t member = 1; member < sources.size(); ++member) {
      const float* source = sources[member] + done;
      for (std::size_t i = 0; i < size; ++i) sum[i] += source[i];
    }
    for (std::size_t i = 0; i < size; ++i) out[done + i] = sum[i] / count;
  }
}

}  // namespace thinwire
