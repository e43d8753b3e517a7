// What the ranks of one process know of each other, and the giving up: whoever fails first waits
// until no other thread is inside NCCL and has all communicators of the process aborted, as one.
// Internal to transports/nccl*.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transports/nccl_api_internal.h"

namespace thinwire::near {

enum class NcclCall : std::uint32_t {
  none,
  reduce_scatter_mean,
  all_gather,
  all_reduce_mean,
  broadcast,
  barrier,
  all_to_all
};

// What a rank is doing: its `sequence`-th operation since the ranks were connected.
struct NcclStep {
  NcclCall call = NcclCall::none;
  std::uint32_t inside = 0;  // 1: not done yet
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;  // floats
  std::uint64_t detail = 0;  // hash of the cuts, or the root

  bool operator==(const NcclStep&) const = default;
};

std::string call_text(NcclCall call);
// The first difference between steps of the same sequence; empty where there is none. Equal on all
// ranks that see the same steps.
std::string difference(const std::vector<NcclStep>& steps);
// "rank 1, rank 3": those who have not come to that operation.
std::string missing(const std::vector<NcclStep>& steps, std::uint64_t sequence);

// Runs a call that may hang, on a thread of its own while this one waits outside NCCL; nothing
// after the deadline, when the thread and what it holds are left behind.
std::optional<NcclResult> within(std::chrono::milliseconds deadline,
                                 std::function<NcclResult()> call);

class Clique {
 public:
  Clique(int ranks_here, std::shared_ptr<NcclApi> api);

  NcclApi& api() const { return *api_; }
  const std::shared_ptr<NcclApi>& shared_api() const { return api_; }
  int ranks_here() const { return ranks_here_; }

  // A rank's place, which is its own thread's but for what the others read under the lock.
  struct Seat {
    int rank = -1;
    NcclComm* comm = nullptr;
    NcclStep step = {};
    std::chrono::milliseconds abort_deadline{};
    bool taken = false;
    bool inside = false;  // NCCL
  };
  Seat& take(int rank, int size, std::chrono::milliseconds abort_deadline);
  // The last one to leave finalizes and destroys all communicators as one.
  void leave(Seat& seat);

  // Connections are numbered alike on all ranks; opening one ends what went wrong before. Throws
  // where a communicator was lost.
  std::uint64_t opened() const;
  void open(Seat& seat, std::uint64_t number);
  void set_comm(Seat& seat, NcclComm* comm);

  // The beginning of all that is done inside NCCL, and its end. False where somebody has failed.
  bool enter(Seat& seat, const NcclStep& step);
  void exit(Seat& seat);
  // Is another rank here in a different step of that sequence?
  bool differs(const NcclStep& step) const;
  bool failed() const { return failed_.load(); }
  bool lost() const;
  std::vector<NcclStep> steps() const;  // by rank; of all where they are threads

  // Gives up for all ranks here and returns why: what was said first. Ends when the abort is over.
  std::string give_up(Seat& seat, const std::string& why);
  // The same from a thread that is no rank: nobody is waited for, who comes next does the rest.
  void fail(const std::string& why);
  // More is known now.
  std::string add_to_failure(const std::string& more);

 private:
  void stop(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds deadline);
  std::vector<NcclComm*> take_comms();

  const int ranks_here_;
  const std::shared_ptr<NcclApi> api_;
  mutable std::mutex mutex_;  // guards all below, and the seats
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::vector<NcclComm*> left_;  // of ranks that have left, until the last one does
  std::uint64_t opened_ = 0;
  std::atomic<bool> failed_{false};
  std::string failure_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::string lost_;  // why a communicator could not be aborted
};

}  // namespace thinwire::near
