#include <algorithm>
#include <utility>

#include "thinwire/error.h"
#include "transports/loopback_group_internal.h"
#include "transports/ordered_mean_internal.h"

namespace thinwire {

LoopbackGroup::LoopbackGroup(std::string name, std::string member_word, int size,
                             std::chrono::milliseconds deadline)
    : name_(std::move(name)),
      member_word_(std::move(member_word)),
      size_(size),
      deadline_(deadline),
      arriving_(size),
      here_(size, false) {
  shown_[0].resize(size);
  shown_[1].resize(size);
}

const std::vector<const float*>& LoopbackGroup::meet(int member, std::string_view operation,
                                                     const float* data) {
  return wait_for_all(member, operation, data, true);
}

void LoopbackGroup::part(int member, std::string_view operation) {
  wait_for_all(member, operation, nullptr, false);
}

const std::vector<const float*>& LoopbackGroup::wait_for_all(int member, std::string_view operation,
                                                             const float* data,
                                                             bool until_failure) {
  std::unique_lock lock(mutex_);
  if (until_failure && !failure_.empty()) throw Error(failure_);
  if (until_failure && arrived_ > 0 && operation != operation_) {
    // Going on would copy between buffers of different sizes.
    failure_ = name_ + ": " + member_word_ + std::to_string(member) + " calls " +
               std::string(operation) + " while another is in " + std::string(operation_) +
               "; all must call the same operations in the same order";
    changed_.notify_all();
    throw Error(failure_);
  }
  operation_ = operation;
  arriving_[member] = data;
  here_[member] = true;
  const std::uint64_t meeting = meeting_;
  if (++arrived_ == size_) {
    // A thread may still read the pointers of this meeting while the next one gathers.
    shown_[meeting % 2] = arriving_;
    std::fill(here_.begin(), here_.end(), false);
    arrived_ = 0;
    ++meeting_;
    changed_.notify_all();
  } else if (!changed_.wait_for(lock, deadline_, [&] {
               return meeting_ != meeting || (until_failure && !failure_.empty());
             })) {
    failure_ = name_ + ": " + who_is_missing() + " did not come to " + std::string(operation) +
               " within " + std::to_string(deadline_.count()) + " ms";
    changed_.notify_all();
  }
  if (meeting_ == meeting) throw Error(failure_);
  return shown_[meeting % 2];
}

void LoopbackGroup::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

std::string LoopbackGroup::who_is_missing() const {
  std::string who;
  for (int member = 0; member < size_; ++member) {
    if (!here_[member]) who += (who.empty() ? "" : ", ") + member_word_ + std::to_string(member);
  }
  return who;
}

namespace {

class LoopbackCollective final : public Collective {
 public:
  LoopbackCollective(LoopbackGroup& group, int member) : group_(group), member_(member) {}

  int rank() const override { return member_; }
  int size() const override { return group_.size(); }

  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override {
    check_cuts(whole.size(), mine.size(), cuts);
    const auto& all = group_.meet(member_, "reduce_scatter_mean", whole.data());
    std::vector<const float*> sources = all;
    for (const float*& source : sources) source += cuts[member_];
    ordered_mean(sources, mine);
    group_.part(member_, "reduce_scatter_mean");
    count(whole.size() - mine.size(), mine.size() * (size() - 1));
  }

  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override {
    check_cuts(whole.size(), mine.size(), cuts);
    const auto& all = group_.meet(member_, "all_gather", mine.data());
    for (int member = 0; member < size(); ++member) {
      float* to = whole.data() + cuts[member];
      if (all[member] != to) std::copy_n(all[member], cuts[member + 1] - cuts[member], to);
    }
    group_.part(member_, "all_gather");
    count(mine.size() * (size() - 1), whole.size() - mine.size());
  }

  void all_to_all(ConstFloats whole, Floats parts, Cuts cuts) override {
    const std::size_t mine = cuts[member_ + 1] - cuts[member_];
    check_cuts(whole.size(), mine, cuts);
    TW_CHECK(parts.size() == mine * size());
    const auto& all = group_.meet(member_, "all_to_all", whole.data());
    for (int member = 0; member < size(); ++member) {
      std::copy_n(all[member] + cuts[member_], mine, parts.data() + mine * member);
    }
    group_.part(member_, "all_to_all");
    count(whole.size() - mine, mine * (size() - 1));
  }

  // Everyone sums an even part, then all take the sums: each way 2 (n-1)/n of the data, as a ring.
  void all_reduce_mean(Floats whole) override {
    std::vector<std::size_t> cuts(size() + 1);
    for (int member = 0; member <= size(); ++member) {
      cuts[member] = whole.size() * member / size();
    }
    const Floats mine = whole.subspan(cuts[member_], cuts[member_ + 1] - cuts[member_]);
    reduce_scatter_mean(whole, mine, cuts);
    all_gather(mine, whole, cuts);
  }

  void broadcast(Floats data, int root) override {
    const auto& all = group_.meet(member_, "broadcast", data.data());
    if (member_ != root) std::copy_n(all[root], data.size(), data.data());
    group_.part(member_, "broadcast");
    if (member_ == root) {
      count(data.size() * (size() - 1), 0);
    } else {
      count(0, data.size());
    }
  }

  void barrier() override { group_.meet(member_, "barrier", nullptr); }
  Traffic traffic() const override { return traffic_; }

 private:
  void check_cuts(std::size_t whole, std::size_t mine, Cuts cuts) const {
    TW_CHECK(cuts.size() == static_cast<std::size_t>(size()) + 1 && cuts.back() == whole);
    TW_CHECK(mine == cuts[member_ + 1] - cuts[member_]);
  }
  void count(std::size_t floats_sent, std::size_t floats_received) {
    traffic_.bytes_sent += floats_sent * sizeof(float);
    traffic_.bytes_received += floats_received * sizeof(float);
  }

  LoopbackGroup& group_;
  int member_;
  Traffic traffic_;
};

}  // namespace

std::unique_ptr<Collective> make_loopback_collective(LoopbackGroup& group, int member) {
  return std::make_unique<LoopbackCollective>(group, member);
}

}  // namespace thinwire
