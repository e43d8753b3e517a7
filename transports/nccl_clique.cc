#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "transports/nccl.h"
#include "transports/nccl_clique_internal.h"

namespace thinwire::near {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{1};

std::string step_text(const NcclStep& step) {
  if (step.call == NcclCall::barrier || step.call == NcclCall::none) return call_text(step.call);
  std::string text = call_text(step.call) + " of " + std::to_string(step.length) + " floats";
  if (step.call == NcclCall::broadcast) text += " from rank " + std::to_string(step.detail);
  return text;
}

bool is_begun(NcclResult result) {
  return result == NcclResult::ok || result == NcclResult::in_progress;
}

void until_settled(NcclApi& api, NcclComm* comm, milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  while (api.state(comm) == NcclResult::in_progress && Clock::now() < end) {
    std::this_thread::sleep_for(kPause);
  }
}

NcclResult for_all(NcclApi& api, const std::vector<NcclComm*>& comms,
                   NcclResult (NcclApi::*call)(NcclComm*)) {
  if (comms.size() == 1) return (api.*call)(comms[0]);
  NcclResult worst = api.group_start();
  for (NcclComm* comm : comms) {
    const NcclResult result = (api.*call)(comm);
    if (is_begun(worst)) worst = result;
  }
  const NcclResult end = api.group_end();
  return is_begun(worst) ? end : worst;
}

// Where the library knows how, what is under way is stopped first, and the abort finds it quiet.
NcclResult abort_all(NcclApi& api, const std::vector<NcclComm*>& comms, milliseconds deadline) {
  for (NcclComm* comm : comms) {
    if (is_begun(api.revoke(comm))) until_settled(api, comm, deadline / 4);
  }
  return for_all(api, comms, &NcclApi::abort);
}

// Where the others do not come to the end of it, it is not waited for further: aborted instead.
NcclResult destroy_all(NcclApi& api, const std::vector<NcclComm*>& comms, milliseconds deadline) {
  const NcclResult result = for_all(api, comms, &NcclApi::finalize);
  if (!is_begun(result)) return abort_all(api, comms, deadline);
  for (NcclComm* comm : comms) {
    until_settled(api, comm, deadline / 2);
    if (api.state(comm) != NcclResult::ok) return abort_all(api, comms, deadline);
  }
  return for_all(api, comms, &NcclApi::destroy);
}

}  // namespace

std::string call_text(NcclCall call) {
  constexpr std::array<const char*, 7> kNames{
      "nothing", "reduce_scatter_mean", "all_gather", "all_reduce_mean", "broadcast",
      "barrier", "all_to_all"};
  const auto at = static_cast<std::size_t>(call);
  return at < kNames.size() ? kNames[at] : "something unknown";
}

std::string difference(const std::vector<NcclStep>& steps) {
  for (std::size_t rank = 1; rank < steps.size(); ++rank) {
    const NcclStep& one = steps[rank];
    const NcclStep& first = steps[0];
    if (one.sequence != first.sequence) continue;
    std::string mine = step_text(first);
    std::string other = step_text(one);
    if (one.detail != first.detail && mine == other) {
      mine += " cut in one way";
      other += " cut in another";
    }
    if (mine == other) continue;
    return "rank " + std::to_string(rank) + " calls " + other + " where rank 0 calls " + mine +
           "; all must call the same operations in the same order with the same sizes";
  }
  return "";
}

std::string missing(const std::vector<NcclStep>& steps, std::uint64_t sequence) {
  std::string who;
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    if (steps[rank].sequence >= sequence) continue;
    who += (who.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return who;
}

std::optional<NcclResult> within(milliseconds deadline, std::function<NcclResult()> call) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<NcclResult> result;
  };
  const auto answer = std::make_shared<Answer>();
  std::thread([answer, call = std::move(call)] {
    const NcclResult result = call();
    std::lock_guard lock(answer->mutex);
    answer->result = result;
    answer->changed.notify_all();
  }).detach();
  std::unique_lock lock(answer->mutex);
  answer->changed.wait_until(lock, Clock::now() + deadline,
                             [&] { return answer->result.has_value(); });
  return answer->result;
}

Clique::Clique(int ranks_here, std::shared_ptr<NcclApi> api)
    : ranks_here_(ranks_here), api_(std::move(api)) {
  if (ranks_here < 1) throw UsageError("a site has 1 rank or more in a process");
  for (int i = 0; i < ranks_here; ++i) seats_.push_back(std::make_unique<Seat>());
}

Clique::Seat& Clique::take(int rank, int size, milliseconds abort_deadline) {
  if (ranks_here_ != 1 && ranks_here_ != size) {
    throw UsageError("either all ranks of a site are threads of a process or one is: " +
                     std::to_string(ranks_here_) + " of " + std::to_string(size) +
                     " cannot be here");
  }
  std::lock_guard lock(mutex_);
  Seat& seat = *seats_[ranks_here_ == 1 ? 0 : rank];
  if (seat.taken) throw UsageError("rank " + std::to_string(rank) + " is here already");
  seat = {.rank = rank, .abort_deadline = abort_deadline, .taken = true};
  return seat;
}

void Clique::leave(Seat& seat) {
  std::unique_lock lock(mutex_);
  if (failed_) stop(lock, seat.abort_deadline);
  if (seat.comm != nullptr) left_.push_back(std::exchange(seat.comm, nullptr));
  seat.taken = false;
  if (left_.empty()) return;
  for (const auto& other : seats_) {
    if (other->taken) return;
  }
  const std::vector<NcclComm*> comms = std::exchange(left_, {});
  lock.unlock();
  const auto api = api_;
  const milliseconds deadline = seat.abort_deadline;
  // Where this hangs, the communicators are left to the end of the process.
  within(deadline, [api, comms, deadline] { return destroy_all(*api, comms, deadline); });
}

std::uint64_t Clique::opened() const {
  std::lock_guard lock(mutex_);
  return opened_;
}

void Clique::open(Seat& seat, std::uint64_t number) {
  std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw Error(lost_);
  if (number != opened_) {
    opened_ = number;
    failed_ = false;
    failure_.clear();
    stopping_ = stopped_ = false;
  }
  seat.step = {};
}

void Clique::set_comm(Seat& seat, NcclComm* comm) {
  std::lock_guard lock(mutex_);
  seat.comm = comm;
}

bool Clique::enter(Seat& seat, const NcclStep& step) {
  std::lock_guard lock(mutex_);
  if (failed_) return false;
  seat.step = step;
  seat.inside = true;
  return true;
}

void Clique::exit(Seat& seat) {
  std::lock_guard lock(mutex_);
  seat.inside = false;
  seat.step.inside = 0;
  changed_.notify_all();
}

bool Clique::differs(const NcclStep& step) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(seats_, [&](const auto& other) {
    return other->step.inside == 1 && other->step.sequence == step.sequence && other->step != step;
  });
}

bool Clique::lost() const {
  std::lock_guard lock(mutex_);
  return !lost_.empty();
}

std::vector<NcclStep> Clique::steps() const {
  std::lock_guard lock(mutex_);
  std::vector<NcclStep> steps;
  for (const auto& seat : seats_) steps.push_back(seat->step);
  return steps;
}

std::string Clique::give_up(Seat& seat, const std::string& why) {
  std::unique_lock lock(mutex_);
  seat.inside = false;
  changed_.notify_all();
  if (failure_.empty()) failure_ = why;
  failed_ = true;
  stop(lock, seat.abort_deadline);
  return failure_;
}

void Clique::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  failed_ = true;
  changed_.notify_all();
}

std::string Clique::add_to_failure(const std::string& more) {
  std::lock_guard lock(mutex_);
  failure_ += more;
  return failure_;
}

std::vector<NcclComm*> Clique::take_comms() {
  std::vector<NcclComm*> comms = std::exchange(left_, {});
  for (const auto& seat : seats_) {
    if (seat->comm != nullptr) comms.push_back(std::exchange(seat->comm, nullptr));
  }
  return comms;
}

void Clique::stop(std::unique_lock<std::mutex>& lock, milliseconds deadline) {
  if (stopping_) {  // by another rank, whose deadline ends this wait too
    changed_.wait(lock, [&] { return stopped_; });
    return;
  }
  stopping_ = true;
  const bool all_out = changed_.wait_for(lock, deadline, [&] {
    return std::ranges::none_of(seats_, [](const auto& seat) { return seat->inside; });
  });
  const std::vector<NcclComm*> comms = take_comms();
  std::optional<NcclResult> result = NcclResult::ok;
  std::string why = "a call of NCCL does not return";
  if (all_out && !comms.empty()) {
    lock.unlock();
    const auto api = api_;
    result = within(deadline, [api, comms, deadline] { return abort_all(*api, comms, deadline); });
    lock.lock();
    if (result) {
      why = text_of(*result);
    } else {
      why = "no answer for " + std::to_string(deadline.count()) + " ms";
    }
  }
  if (!all_out || !result || !is_begun(*result)) {
    failure_ += "; NCCL could not be stopped (" + why +
                ") and its communicator is lost: end this process and go on from a checkpoint";
    lost_ = failure_;
  }
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace thinwire::near

namespace thinwire {

NcclClique::NcclClique(int ranks_here) : NcclClique(ranks_here, load_nccl()) {}
NcclClique::NcclClique(int ranks_here, std::shared_ptr<NcclApi> api)
    : clique_(std::make_unique<near::Clique>(ranks_here, std::move(api))) {}
NcclClique::~NcclClique() = default;

std::string NcclClique::version() const { return nccl_version_text(clique_->api().version()); }
void NcclClique::fail(const std::string& why) { clique_->fail(why); }

}  // namespace thinwire
