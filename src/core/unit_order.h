// In which order a pass takes units: learned from the pass before, so that the next one can be
// fetched ahead. Equal on all ranks of a site, as their leases are.
#pragma once

#include <algorithm>
#include <vector>

namespace thinwire {

class UnitOrder {
 public:
  void begin_pass() {
    last_ = std::move(now_);
    now_.clear();
    at_ = 0;
  }
  // A pass takes `unit`. One that deviates from the last is followed from where it meets it again.
  void taken(int unit) {
    now_.push_back(unit);
    const auto found = std::find(last_.begin() + at_, last_.end(), unit);
    at_ = found == last_.end() ? last_.size() : found - last_.begin() + 1;
  }
  // What is probably taken next; -1: nothing is known.
  int next() const { return at_ < last_.size() ? last_[at_] : -1; }

 private:
  std::vector<int> last_;
  std::vector<int> now_;
  std::size_t at_ = 0;  // in last_: what comes next
};

}  // namespace thinwire
