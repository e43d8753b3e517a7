// NCCL's part played in memory: ranks are threads, the device is the host, and a stream is what a
// thread has begun and not finished. Collectives really move and sum data. As with NCCL, what a
// call has begun is not in the stream before state() was asked a few times, sends meet receives in
// their order, and ranks that call different things wait for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "transports/nccl_api_internal.h"

namespace thinwire::test {

// What goes wrong at one rank.
struct FakeFault {
  int rank = -1;
  bool init_hangs = false;                      // it is never connected
  std::optional<NcclResult> init_answers = {};  // at once
  int after_calls = 0;                          // operations that go well before these:
  bool operation_hangs = false;                 // taken in and never done
  bool never_taken = false;                     // in progress for ever
  std::optional<NcclResult> answers = {};       // of the call itself, once
  std::optional<NcclResult> state = {};         // of the communicator, once the call has gone well
  bool device_is_lost = false;
  std::optional<NcclResult> abort_answers = {};
  bool abort_hangs = false;
  bool destroy_hangs = false;
};

struct FakeOptions {
  std::vector<FakeFault> faults = {};
  bool has_revoke = true;
  bool has_memory = true;  // of its own, to be registered
  bool one_device = false;
  std::vector<int> versions = {22809};  // of the rank that asks, the last one for all others
};

class FakeNccl;

// What all processes share.
class FakeLibrary : public std::enable_shared_from_this<FakeLibrary> {
 public:
  explicit FakeLibrary(FakeOptions options = {}) : options_(std::move(options)) {}

  // One table a process; ranks that are threads share it.
  std::shared_ptr<NcclApi> process(int number = 0);
  void forgive() { set_faults({}); }
  void set_faults(std::vector<FakeFault> faults);
  void release();  // whoever hangs goes on
  int count(const std::string& call) const;
  // Threads that were inside one communicator at the same time, or used one that was gone.
  int misuses() const { return count("misuse"); }

 private:
  friend class FakeNccl;
  struct Operation {
    enum class Kind { send, recv, broadcast, gather, reduce, scatter, all_reduce } kind;
    ConstFloats from = {};
    Floats to = {};
    int peer = 0;  // or the root
    const void* owner = nullptr;
    bool done = false;
  };
  using Begun = std::shared_ptr<Operation>;
  struct Comm {
    NcclId id = {};
    int rank = 0;
    int size = 0;
    int polls = 0;  // until what was begun is in the stream
    int calls = 0;
    bool gone = false;
    bool finalized = false;
    std::vector<Begun> waiting = {};  // not yet in the stream
    std::map<int, std::deque<Begun>> sends = {};
    std::map<int, std::deque<Begun>> receives = {};
    std::deque<Begun> collectives = {};
    NcclResult state = NcclResult::ok;
    std::set<std::thread::id> inside = {};
  };

  const FakeFault& fault(int rank) const;
  Comm* find(NcclComm* comm);
  Comm* peer_of(const Comm& comm, int rank);
  void take_in(Comm& comm);
  void meet(Comm& comm);
  bool meet_collective(Comm& comm);
  void hang(std::unique_lock<std::mutex>& lock);
  void forget(Comm& comm);

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  FakeOptions options_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::map<NcclId, int> came_;
  std::map<std::thread::id, std::vector<Begun>> streams_;
  std::map<std::string, int> counts_;
  std::map<float*, std::unique_ptr<float[]>> memory_;
  int ids_ = 0;
  int identities_ = 0;
  int hanging_ = 0;
  bool released_ = false;
};

}  // namespace thinwire::test
