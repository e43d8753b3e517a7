#include "thinwire/collective.h"

#include <algorithm>
#include <vector>

namespace thinwire {

void Collective::all_to_all(ConstFloats whole, Floats parts, Cuts cuts) {
  std::vector<std::size_t> ends{0};
  for (int member = 0; member < size(); ++member) ends.push_back(ends.back() + whole.size());
  std::vector<float> all(ends.back());
  all_gather(whole, all, ends);
  const std::size_t begin = cuts[rank()];
  const std::size_t length = cuts[rank() + 1] - begin;
  for (int member = 0; member < size(); ++member) {
    std::copy_n(all.begin() + ends[member] + begin, length, parts.begin() + length * member);
  }
}

}  // namespace thinwire
