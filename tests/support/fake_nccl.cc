#include "tests/support/fake_nccl.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "transports/ordered_mean_internal.h"

namespace thinwire::test {
namespace {

constexpr int kPolls = 3;

thread_local int depth = 0;
thread_local std::vector<std::function<NcclResult()>> grouped;

}  // namespace

class FakeNccl final : public NcclApi {
 public:
  FakeNccl(std::shared_ptr<FakeLibrary> library, int number)
      : shared_(std::move(library)), library_(*shared_), number_(number) {}

  int version() override {
    std::lock_guard lock(library_.mutex_);
    const auto& versions = library_.options_.versions;
    return versions[std::min<std::size_t>(number_, versions.size() - 1)];
  }
  std::string last_error(NcclComm*) override { return "the fake said so"; }

  NcclResult unique_id(NcclId& id) override {
    std::lock_guard lock(library_.mutex_);
    id.fill(0);
    id[0] = static_cast<char>(++library_.ids_);
    return NcclResult::ok;
  }

  NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank, Device) override {
    std::lock_guard lock(library_.mutex_);
    comm = nullptr;
    if (const auto answer = library_.fault(rank).init_answers) return *answer;
    auto made = std::make_unique<FakeLibrary::Comm>();
    made->id = id;
    made->rank = rank;
    made->size = size;
    comm = reinterpret_cast<NcclComm*>(made.get());
    library_.comms_.push_back(std::move(made));
    if (!library_.fault(rank).init_hangs) ++library_.came_[id];
    return NcclResult::in_progress;
  }

  NcclResult state(NcclComm* comm) override {
    return on(comm, "state", [&](FakeLibrary::Comm& own, auto&) {
      if (library_.came_[own.id] < own.size) return NcclResult::in_progress;
      if (own.state != NcclResult::ok) return own.state;
      if (own.waiting.empty()) return NcclResult::ok;
      if (library_.fault(own.rank).never_taken && own.calls > library_.fault(own.rank).after_calls)
        return NcclResult::in_progress;
      if (++own.polls < kPolls) return NcclResult::in_progress;
      library_.take_in(own);
      return NcclResult::ok;
    });
  }

  NcclResult revoke(NcclComm* comm) override {
    if (!library_.options_.has_revoke) return NcclResult::absent;
    return on(comm, "revoke", [&](FakeLibrary::Comm& own, auto&) {
      library_.forget(own);
      return NcclResult::ok;
    });
  }

  NcclResult abort(NcclComm* comm) override {
    return grouped_or_now([this, comm] {
      return on(comm, "abort", [&](FakeLibrary::Comm& own, auto& lock) {
        const FakeFault fault = library_.fault(own.rank);
        if (fault.abort_hangs) library_.hang(lock);
        if (fault.abort_answers) return *fault.abort_answers;
        library_.forget(own);
        own.gone = true;
        return NcclResult::ok;
      });
    });
  }

  NcclResult finalize(NcclComm* comm) override {
    return grouped_or_now([this, comm] {
      return on(comm, "finalize", [&](FakeLibrary::Comm& own, auto&) {
        own.finalized = true;
        return NcclResult::in_progress;
      });
    });
  }

  NcclResult destroy(NcclComm* comm) override {
    return grouped_or_now([this, comm] {
      return on(comm, "destroy", [&](FakeLibrary::Comm& own, auto& lock) {
        if (library_.fault(own.rank).destroy_hangs) library_.hang(lock);
        own.gone = true;
        return NcclResult::ok;
      });
    });
  }

  NcclResult group_start() override {
    ++depth;
    return NcclResult::ok;
  }
  NcclResult group_end() override {
    if (--depth > 0) return NcclResult::ok;
    NcclResult worst = NcclResult::ok;
    for (const auto& call : std::exchange(grouped, {})) {
      const NcclResult result = call();
      if (worst == NcclResult::ok || worst == NcclResult::in_progress) worst = result;
    }
    return worst;
  }

  NcclResult send(ConstFloats data, int peer, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::send, .from = data, .peer = peer});
  }
  NcclResult recv(Floats data, int peer, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::recv, .to = data, .peer = peer});
  }
  NcclResult broadcast(Floats data, int root, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::broadcast, .from = data, .to = data, .peer = root});
  }
  NcclResult all_gather(ConstFloats mine, Floats whole, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::gather, .from = mine, .to = whole});
  }
  NcclResult reduce_mean(ConstFloats data, Floats out, int root, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::reduce, .from = data, .to = out, .peer = root});
  }
  NcclResult reduce_scatter_mean(ConstFloats whole, Floats mine, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::scatter, .from = whole, .to = mine});
  }
  NcclResult all_reduce_mean(Floats data, NcclComm* comm) override {
    return begin(comm, {.kind = Kind::all_reduce, .from = data, .to = data});
  }

  float* allocate(std::size_t floats, Device) override {
    if (!library_.options_.has_memory) return nullptr;
    std::lock_guard lock(library_.mutex_);
    auto memory = std::make_unique<float[]>(floats + 1);
    float* const place = memory.get();
    library_.memory_[place] = std::move(memory);
    return place;
  }
  void release(float* memory, Device) override {
    std::lock_guard lock(library_.mutex_);
    library_.memory_.erase(memory);
  }
  NcclResult register_memory(NcclComm*, Floats memory, void*& handle) override {
    std::lock_guard lock(library_.mutex_);
    ++library_.counts_["register"];
    handle = memory.data();
    return NcclResult::ok;
  }
  NcclResult deregister(NcclComm*, void*) override {
    std::lock_guard lock(library_.mutex_);
    ++library_.counts_["deregister"];
    return NcclResult::ok;
  }

  bool idle(NcclComm* comm, Device) override {
    bool idle = false;
    on(comm, "idle", [&](FakeLibrary::Comm& own, auto&) {
      const FakeFault& fault = library_.fault(own.rank);
      if (fault.device_is_lost && own.calls > fault.after_calls) {
        throw Error("the CUDA device failed in asking the device: it fell off the bus");
      }
      std::vector<FakeLibrary::Begun>& stream = library_.streams_[std::this_thread::get_id()];
      std::erase_if(stream, [](const auto& one) { return one->done; });
      idle = stream.empty();
      return NcclResult::ok;
    });
    return idle;
  }

  void mean(std::span<const float* const> sources, Floats out) override {
    ordered_mean(sources, out);
  }

  std::string identity(Device) override {
    std::lock_guard lock(library_.mutex_);
    return "GPU-" + std::to_string(library_.options_.one_device ? 0 : ++library_.identities_);
  }

 private:
  using Kind = FakeLibrary::Operation::Kind;

  // Under the lock, as the only thread inside that communicator.
  template <class Act>
  NcclResult on(NcclComm* comm, const std::string& name, Act act) {
    std::unique_lock lock(library_.mutex_);
    ++library_.counts_[name];
    FakeLibrary::Comm* const own = library_.find(comm);
    if (own == nullptr || own->gone || !own->inside.empty()) {
      ++library_.counts_["misuse"];
      return NcclResult::internal;
    }
    own->inside.insert(std::this_thread::get_id());
    NcclResult result = NcclResult::ok;
    try {
      result = act(*own, lock);
    } catch (...) {
      own->inside.clear();
      throw;
    }
    own->inside.clear();
    return result;
  }

  NcclResult grouped_or_now(std::function<NcclResult()> call) {
    if (depth == 0) return call();
    grouped.push_back(std::move(call));
    return NcclResult::ok;
  }

  NcclResult begin(NcclComm* comm, FakeLibrary::Operation operation) {
    return grouped_or_now([this, comm, operation] {
      return on(comm, "operation", [&](FakeLibrary::Comm& own, auto&) {
        FakeFault fault = library_.fault(own.rank);
        ++own.calls;
        if (fault.answers && own.calls == fault.after_calls + 1) return *fault.answers;
        own.polls = 0;
        own.waiting.push_back(std::make_shared<FakeLibrary::Operation>(operation));
        own.waiting.back()->owner = &own;
        return NcclResult::in_progress;
      });
    });
  }

  const std::shared_ptr<FakeLibrary> shared_;  // for threads that were left behind
  FakeLibrary& library_;
  const int number_;
};

std::shared_ptr<NcclApi> FakeLibrary::process(int number) {
  return std::make_shared<FakeNccl>(shared_from_this(), number);
}

void FakeLibrary::set_faults(std::vector<FakeFault> faults) {
  std::lock_guard lock(mutex_);
  options_.faults = std::move(faults);
}

void FakeLibrary::release() {
  std::unique_lock lock(mutex_);
  released_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::seconds(5), [&] { return hanging_ == 0; });
}

int FakeLibrary::count(const std::string& call) const {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(call);
  return found == counts_.end() ? 0 : found->second;
}

const FakeFault& FakeLibrary::fault(int rank) const {
  static const FakeFault kNone;
  for (const FakeFault& fault : options_.faults) {
    if (fault.rank == rank) return fault;
  }
  return kNone;
}

FakeLibrary::Comm* FakeLibrary::find(NcclComm* comm) {
  for (const auto& one : comms_) {
    if (reinterpret_cast<NcclComm*>(one.get()) == comm) return one.get();
  }
  return nullptr;
}

FakeLibrary::Comm* FakeLibrary::peer_of(const Comm& comm, int rank) {
  for (const auto& one : comms_) {
    if (one->id == comm.id && one->rank == rank && !one->gone) return one.get();
  }
  return nullptr;
}

void FakeLibrary::take_in(Comm& comm) {
  const FakeFault& fault = this->fault(comm.rank);
  const bool bad = comm.calls > fault.after_calls;
  for (Begun& one : std::exchange(comm.waiting, {})) {
    streams_[std::this_thread::get_id()].push_back(one);
    if (fault.operation_hangs && bad) continue;
    if (one->kind == Operation::Kind::send) {
      comm.sends[one->peer].push_back(one);
    } else if (one->kind == Operation::Kind::recv) {
      comm.receives[one->peer].push_back(one);
    } else {
      comm.collectives.push_back(one);
    }
  }
  meet(comm);
  if (fault.state && bad) comm.state = *fault.state;
}

void FakeLibrary::meet(Comm& comm) {
  const auto carry = [](std::deque<Begun>& sends, std::deque<Begun>& receives) {
    while (!sends.empty() && !receives.empty() &&
           sends.front()->from.size() == receives.front()->to.size()) {
      std::ranges::copy(sends.front()->from, receives.front()->to.begin());
      sends.front()->done = receives.front()->done = true;
      sends.pop_front();
      receives.pop_front();
    }
  };
  for (int rank = 0; rank < comm.size; ++rank) {
    Comm* const peer = peer_of(comm, rank);
    if (peer == nullptr) continue;
    carry(comm.sends[rank], peer->receives[comm.rank]);
    carry(peer->sends[comm.rank], comm.receives[rank]);
  }
  while (meet_collective(comm)) {
  }
}

bool FakeLibrary::meet_collective(Comm& comm) {
  std::vector<Comm*> all;
  for (int rank = 0; rank < comm.size; ++rank) {
    Comm* const one = peer_of(comm, rank);
    if (one == nullptr || one->collectives.empty()) return false;
    all.push_back(one);
  }
  std::vector<Begun> fronts;
  for (Comm* one : all) fronts.push_back(one->collectives.front());
  const Operation& first = *fronts[0];
  for (const Begun& one : fronts) {
    if (one->kind != first.kind || one->peer != first.peer ||
        (first.kind != Operation::Kind::gather && one->from.size() != first.from.size())) {
      return false;  // for ever
    }
  }
  const auto size = static_cast<std::size_t>(comm.size);
  // From the last to the first: an order of its own.
  const auto mean_of = [&](std::size_t begin, std::size_t length) {
    std::vector<float> sum(length, 0.0f);
    for (std::size_t member = size; member-- > 0;) {
      for (std::size_t i = 0; i < length; ++i) sum[i] += fronts[member]->from[begin + i];
    }
    for (float& one : sum) one /= static_cast<float>(size);
    return sum;
  };
  std::vector<std::pair<std::vector<float>, Floats>> writes;
  for (std::size_t rank = 0; rank < size; ++rank) {
    const Floats to = fronts[rank]->to;
    if (first.kind == Operation::Kind::broadcast) {
      const ConstFloats from = fronts[first.peer]->from;
      writes.emplace_back(std::vector<float>(from.begin(), from.end()), to);
    } else if (first.kind == Operation::Kind::gather) {
      std::vector<float> whole;
      for (const Begun& one : fronts) {
        whole.insert(whole.end(), one->from.begin(), one->from.end());
      }
      writes.emplace_back(std::move(whole), to);
    } else if (first.kind == Operation::Kind::reduce) {
      if (rank == static_cast<std::size_t>(first.peer)) {
        writes.emplace_back(mean_of(0, first.from.size()), to);
      }
    } else if (first.kind == Operation::Kind::scatter) {
      writes.emplace_back(mean_of(to.size() * rank, to.size()), to);
    } else {
      writes.emplace_back(mean_of(0, first.from.size()), to);
    }
  }
  for (const auto& [values, to] : writes) std::ranges::copy(values, to.begin());
  for (const Begun& one : fronts) one->done = true;
  for (Comm* one : all) one->collectives.pop_front();
  return true;
}

void FakeLibrary::hang(std::unique_lock<std::mutex>& lock) {
  ++hanging_;
  changed_.wait(lock, [&] { return released_; });
  --hanging_;
  changed_.notify_all();
}

// Nothing of it is written or read any more.
void FakeLibrary::forget(Comm& comm) {
  comm.waiting.clear();
  comm.sends.clear();
  comm.receives.clear();
  comm.collectives.clear();
  for (auto& [thread, stream] : streams_) {
    std::erase_if(stream, [&](const Begun& one) { return one->owner == &comm; });
  }
}

}  // namespace thinwire::test
