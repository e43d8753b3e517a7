// Threads that meet: the shared half of a loopback collective. Internal to transports/.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/collective.h"

namespace thinwire {

class LoopbackGroup {
 public:
  // `name` and `member_word` make messages: "site 2: rank 1 did not come to all_gather".
  LoopbackGroup(std::string name, std::string member_word, int size,
                std::chrono::milliseconds deadline);

  // Shows `data` to the others and waits until all have shown theirs; returns theirs, in member
  // order, valid until everyone has met again. Throws Error after the deadline or fail(), or when
  // members call different operations. `operation` is kept: a literal.
  const std::vector<const float*>& meet(int member, std::string_view operation, const float* data);
  // Ends what meet() began: nobody reads anybody's data any more. Waits for the others even after
  // fail(): whoever left earlier would free memory that they still copy.
  void part(int member, std::string_view operation);
  void fail(const std::string& why);
  int size() const { return size_; }

 private:
  // `until_failure`: fail() ends the wait too.
  const std::vector<const float*>& wait_for_all(int member, std::string_view operation,
                                                const float* data, bool until_failure);
  std::string who_is_missing() const;

  const std::string name_;
  const std::string member_word_;
  const int size_;
  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<const float*> arriving_;
  std::vector<bool> here_;
  std::vector<const float*> shown_[2];  // of this meeting and the one before
  std::uint64_t meeting_ = 0;
  int arrived_ = 0;
  std::string_view operation_;  // of those that arrived; names are literals
  std::string failure_;
};

std::unique_ptr<Collective> make_loopback_collective(LoopbackGroup& group, int member);

}  // namespace thinwire
