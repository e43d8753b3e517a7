// How a rank waits, and what becomes of it when it waits in vain. What went wrong travels up to
// guarded() as NcclTrouble, a break of the rule that nobody catches: the communicators have to go
// before anybody may hear of it.
#include <algorithm>
#include <thread>

#include "thinwire/error.h"
#include "transports/nccl_rank_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;
using Kind = NcclTrouble::Kind;

// Of the polling: at once for what takes microseconds, then so seldom that it costs nothing.
class Pause {
 public:
  void operator()() {
    constexpr int kEager = 64;
    if (++turns_ < kEager) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(500, 10 * (turns_ - kEager))));
  }

 private:
  int turns_ = 0;
};

bool is_refusal(NcclResult result) {
  return result == NcclResult::invalid_argument || result == NcclResult::invalid_usage;
}

std::string ms_text(milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

std::string NcclRank::doing() const {
  if (seat_.step.call == NcclCall::none) return "connecting the ranks";
  return call_text(seat_.step.call);
}

void NcclRank::perform(NcclCall call, std::size_t length, std::uint64_t detail,
                       const std::function<void()>& act) {
  const NcclStep step{
      .call = call, .inside = 1, .sequence = ++sequence_, .length = length, .detail = detail};
  guarded([&] {
    if (!clique_.enter(seat_, step)) throw NcclTrouble{.kind = Kind::told};
    if (clique_.differs(step)) {
      throw NcclTrouble{.kind = Kind::differ, .text = found_in(clique_.steps())};
    }
    act();
    clique_.exit(seat_);
  });
}

void NcclRank::guarded(const std::function<void()>& act) {
  try {
    act();
  } catch (const NcclTrouble& trouble) {
    end_badly(trouble);
  } catch (const std::exception& error) {  // no memory, a device that is lost
    end_badly({.kind = Kind::own, .text = error.what()});
  }
}

void NcclRank::end_badly(const NcclTrouble& trouble) {
  const std::string begin = options_.name + ": ";
  if (trouble.kind == Kind::refused) {
    clique_.exit(seat_);
    throw Error(begin + "NCCL refuses " + doing() + " (" + trouble.text +
                "); the ranks are still connected");
  }
  const bool of_others = trouble.kind == Kind::late || trouble.kind == Kind::remote;
  std::string text = begin + trouble.text;
  if (trouble.kind == Kind::own) {
    text = begin + "rank " + std::to_string(rank()) + " failed in " + doing() + ": " + trouble.text;
  }
  if (of_others && all_here()) text += found_in(clique_.steps());
  // Known without a question, and in the words of the other near links.
  const std::string who = all_here() && trouble.kind == Kind::late
                              ? missing(clique_.steps(), sequence_)
                              : std::string();
  if (!who.empty()) {
    text = begin + who + " did not come to " + doing() + " within " + ms_text(options_.deadline);
  }
  text = clique_.give_up(seat_, text);
  if (clique_.lost()) {
    for (NcclMemory* memory : {&scratch_, &in_, &out_}) memory->leak();
  } else if (of_others && !all_here()) {
    text = clique_.add_to_failure(ask_others());
  }
  last_failure_ = text;
  throw Error(text);
}

std::string NcclRank::found_in(const std::vector<NcclStep>& steps) const {
  std::uint64_t newest = 0;
  for (const NcclStep& step : steps) newest = std::max(newest, step.sequence);
  const std::string late = missing(steps, newest);
  if (!late.empty()) {
    return ": " + late + " did not come to operation " + std::to_string(newest);
  }
  const std::string other = difference(steps);
  if (!other.empty()) return ": " + other;
  return " though all ranks came to it; a device, or the link between them, stands still";
}

// Each one does so that has waited in vain; who does not come here either is missing.
std::string NcclRank::ask_others() {
  try {
    const std::vector<NcclWord> words = meet(own_word(0));
    std::vector<NcclStep> steps;
    for (std::size_t one = 0; one < words.size(); ++one) {
      if (words[one].why[0] != '\0') {
        return ": rank " + std::to_string(one) + " has given up: " + words[one].why.data();
      }
      steps.push_back(words[one].step);
    }
    return found_in(steps);
  } catch (const Error& error) {
    return std::string(": ") + error.what();
  }
}

void NcclRank::group(const std::function<void()>& calls) {
  api().follow(comm());
  call(api().group_start());
  try {
    calls();
  } catch (const NcclTrouble&) {  // the group has to be ended all the same
    api().group_end();
    throw;
  }
  call(api().group_end());
  wait();
}

void NcclRank::call(NcclResult result) {
  if (result == NcclResult::ok || result == NcclResult::in_progress) return;
  const std::string last = api().last_error(comm());
  const std::string text = text_of(result) + (last.empty() ? "" : ": " + last);
  if (is_refusal(result)) throw NcclTrouble{.kind = Kind::refused, .text = text};
  if (result == NcclResult::remote) {
    throw NcclTrouble{.kind = Kind::remote, .text = doing() + " failed (" + text + ")"};
  }
  throw NcclTrouble{.kind = Kind::own, .text = text};
}

// What a communicator has not taken in yet is not in the stream, which then says that it is idle.
void NcclRank::wait(milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  bool taken = false;
  for (Pause pause;; pause()) {
    const bool idle = taken && api().idle(comm(), options_.device);
    const NcclResult state = api().state(comm());
    call(state);
    if (state == NcclResult::ok) {
      if (idle) return;
      taken = true;
    }
    if (clique_.failed()) throw NcclTrouble{.kind = Kind::told};
    if (Clock::now() < end) continue;
    throw NcclTrouble{.kind = Kind::late,
                      .text = doing() + " was not done within " + ms_text(deadline)};
  }
}

}  // namespace thinwire::near
