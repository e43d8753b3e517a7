// Compiled without the thread sanitizer (tests/support/CMakeLists.txt), which would see the threads
// of a block share what lies here.
#include "tests/support/fake_cuda/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_cuda/cuda_runtime.h"
#include "tests/support/fake_cuda/fiber.h"
#include "tests/support/fake_cuda/permutation.h"
#include "tests/support/fake_cuda/sanitizer.h"

constinit thread_local thinwire::fake_cuda::Index threadIdx{};
constinit thread_local thinwire::fake_cuda::Index blockIdx{};
constinit thread_local thinwire::fake_cuda::Index blockDim{};
constinit thread_local thinwire::fake_cuda::Index gridDim{};

namespace thinwire::fake_cuda {
namespace {

constexpr unsigned kLanes = 32;
constexpr std::uint64_t kNobodysValue = 0x7fb5eed07fb5eed0u;  // a NaN in either half

enum class State { fresh, ready, at_barrier, in_warp, done };

struct Thread {
  State state = State::fresh;
  Fiber* fiber = nullptr;
  Barrier barrier = Barrier::plain;
  Meeting meeting = Meeting::sync;
  unsigned mask = 0;
  unsigned from = 0;
  std::uint64_t value = 0;
  std::uint64_t result = 0;
  unsigned arrivals = 0;      // of __syncwarp
  unsigned parities = 0;      // of the arrivals of all lanes that met
  void* sanitizer = nullptr;  // what the thread sanitizer takes it for
  char synced[2] = {};        // addresses that stand for what the sanitizer shall know
};

class Block {
 public:
  ~Block() {
    for (Thread& thread : threads_) end_sanitizer_fiber(thread.sanitizer);
  }

  void prepare() { threads_.reserve(1); }

  void run(unsigned index, unsigned count, const std::function<void()>& body, Permutation& order) {
    body_ = &body;
    order_ = &order;
    begin(index, count);
    sanitizer_of_main_ = sanitizer_fiber();
    release(&begun_);
    current_ = nullptr;
    move_on(main_);
    acquire(&ended_);
  }

  unsigned meet(Barrier kind, bool vote) {
    Thread& self = *current_;
    const unsigned side = generation_ % 2;
    votes_[side] += vote ? 1 : 0;
    self.barrier = kind;
    self.state = State::at_barrier;
    --runnable_;
    release(&barrier_[side]);
    if (++arrived_ == count_ && all_at(kind)) open_barrier();
    move_on(*self.fiber);
    acquire(&barrier_[side]);
    return votes_[side];
  }

  std::uint64_t meet(Meeting kind, unsigned mask, std::uint64_t value, unsigned from) {
    Thread& self = *current_;
    self.meeting = kind;
    self.mask = mask;
    self.value = value;
    self.from = from;
    self.state = State::in_warp;
    --runnable_;
    if (kind == Meeting::sync) release(&self.synced[self.arrivals++ % 2]);
    const unsigned first = index_of(self) / kLanes * kLanes;
    if ((mask >> index_of(self) % kLanes & 1u) == 0) {
      complain("an operation of a warp whose mask leaves its own thread out");
    }
    if (all_met(first, self)) finish_meeting(first, self);
    move_on(*self.fiber);
    if (kind == Meeting::sync) {
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if (mask >> lane & 1u) acquire(&threads_[first + lane].synced[self.parities >> lane & 1u]);
      }
    }
    return self.result;
  }

 private:
  void begin(unsigned index, unsigned count) {
    count_ = count;
    runnable_ = count;
    ended_threads_ = 0;
    arrived_ = 0;
    generation_ = 0;
    votes_[0] = votes_[1] = 0;
    place_ = 0;
    index_ = index;
    make_room(count);
    for (unsigned i = 0; i < count; ++i) {
      threads_[i].state = State::fresh;
      if (threads_[i].sanitizer == nullptr) threads_[i].sanitizer = make_sanitizer_fiber();
    }
    order_->next_pass();
  }

  // Nothing is allocated in a thread of the block: the sanitizer would take it for that thread's.
  void make_room(unsigned count) {
    if (threads_.size() < count) threads_.resize(count);
    fibers_.reserve(threads_.size());
    free_.reserve(threads_.size());
    while (kSanitizeThreads && fibers_.size() < count) {
      fibers_.push_back(std::make_unique<Fiber>(&Block::serve));
    }
  }

  unsigned index_of(const Thread& thread) const {
    return static_cast<unsigned>(&thread - threads_.data());
  }

  // Runs threads on the stack of one fiber until there is none that may begin on it.
  static void serve();
  void serve_threads(Fiber& own) {
    for (;;) {
      (*body_)();
      current_->state = State::done;
      --runnable_;
      ++ended_threads_;
      release(&ended_);
      Thread* next = pick();
      if (next != nullptr && next->state == State::fresh && !kSanitizeThreads) {
        next->fiber = &own;
        become(*next);
        continue;
      }
      if (!kSanitizeThreads) free_.push_back(&own);
      go_to(own, next);
    }
  }

  // From the fiber `own`, whose thread waits, to the next thread that can go on.
  void move_on(Fiber& own) { go_to(own, pick()); }

  void go_to(Fiber& own, Thread* next) {
    if (next == nullptr) {
      change_sanitizer_fiber(sanitizer_of_main_);
      Fiber::change(own, main_);
      return;
    }
    if (next->state == State::fresh) next->fiber = fiber_for(*next);
    become(*next);
    if (next->fiber != &own) Fiber::change(own, *next->fiber);
  }

  void become(Thread& thread) {
    const bool first = thread.state == State::fresh;
    thread.state = State::ready;
    current_ = &thread;
    threadIdx = {index_of(thread), 0, 0};
    change_sanitizer_fiber(thread.sanitizer);
    if (first) acquire(&begun_);
  }

  // To the thread sanitizer two threads on one stack are a race.
  Fiber* fiber_for(const Thread& thread) {
    if (kSanitizeThreads) return fibers_[index_of(thread)].get();
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&Block::serve));
      return fibers_.back().get();
    }
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
  }

  // The next thread in order that can go on; none when all have ended.
  Thread* pick() {
    if (runnable_ == 0) {
      if (ended_threads_ == count_) return nullptr;
      complain(arrived_ > 0 ? "a barrier that some threads of the block never reach"
                            : "an operation of a warp that some lanes of its mask never reach");
    }
    for (;; ++place_) {
      if (place_ == count_) {
        place_ = 0;
        order_->next_pass();
      }
      Thread& thread = threads_[order_->thread(place_)];
      if (thread.state == State::fresh || thread.state == State::ready) {
        ++place_;
        return &thread;
      }
    }
  }

  bool all_at(Barrier kind) const {
    return std::all_of(threads_.begin(), threads_.begin() + count_,
                       [kind](const Thread& thread) { return thread.barrier == kind; });
  }

  void open_barrier() {
    for (unsigned i = 0; i < count_; ++i) threads_[i].state = State::ready;
    runnable_ = count_;
    arrived_ = 0;
    ++generation_;
    votes_[generation_ % 2] = 0;
  }

  bool all_met(unsigned first, const Thread& self) const {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((self.mask >> lane & 1u) == 0) continue;
      if (first + lane >= count_) return false;
      const Thread& other = threads_[first + lane];
      if (other.state != State::in_warp || other.mask != self.mask ||
          other.meeting != self.meeting) {
        return false;
      }
    }
    return true;
  }

  void finish_meeting(unsigned first, const Thread& self) {
    const unsigned mask = self.mask;
    const std::uint64_t together = sum_up(first, self);
    unsigned parities = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (mask >> lane & 1u) parities |= (threads_[first + lane].arrivals + 1) % 2 << lane;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1u) == 0) continue;
      Thread& thread = threads_[first + lane];
      thread.result = together;
      if (self.meeting == Meeting::shuffle) {
        const bool there = mask >> thread.from % kLanes & 1u;
        thread.result = there ? threads_[first + thread.from % kLanes].value : kNobodysValue;
      }
      thread.parities = parities;
      thread.state = State::ready;
      ++runnable_;
    }
  }

  std::uint64_t sum_up(unsigned first, const Thread& self) const {
    std::uint64_t so_far = 0;
    bool begun = false;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((self.mask >> lane & 1u) == 0) continue;
      const std::uint64_t value = threads_[first + lane].value;
      if (self.meeting == Meeting::ballot) {
        so_far |= (value != 0 ? std::uint64_t{1} : 0) << lane;
      } else {
        so_far = begun ? combine(self.meeting, so_far, value) : value;
      }
      begun = true;
    }
    return so_far;
  }

  static std::uint64_t combine(Meeting kind, std::uint64_t a, std::uint64_t b) {
    const auto left = static_cast<unsigned>(a);
    const auto right = static_cast<unsigned>(b);
    const auto signed_left = static_cast<int>(left);
    const auto signed_right = static_cast<int>(right);
    switch (kind) {
      case Meeting::add:
        return left + right;
      case Meeting::least:
        return left < right ? left : right;
      case Meeting::most:
        return left > right ? left : right;
      case Meeting::least_signed:
        return signed_left < signed_right ? left : right;
      case Meeting::most_signed:
        return signed_left > signed_right ? left : right;
      default:
        return 0;
    }
  }

  std::string who(State state) const {
    unsigned number = 0;
    std::string first;
    for (unsigned i = 0; i < count_; ++i) {
      if (threads_[i].state != state) continue;
      if (number++ == 0) first = std::to_string(i);
    }
    return std::to_string(number) + (number == 0 ? "" : " (the first: " + first + ")");
  }

  [[noreturn]] void complain(const char* what) const {
    std::fprintf(stderr,
                 "emulated CUDA: %s, in block %u of %u threads: threads at a barrier: %s, in an "
                 "operation of a warp: %s, ended: %s\n",
                 what, index_, count_, who(State::at_barrier).c_str(), who(State::in_warp).c_str(),
                 who(State::done).c_str());
    std::abort();
  }

  const std::function<void()>* body_ = nullptr;
  Permutation* order_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber main_;
  Thread* current_ = nullptr;
  void* sanitizer_of_main_ = nullptr;
  unsigned index_ = 0;
  unsigned count_ = 0;
  unsigned runnable_ = 0;
  unsigned ended_threads_ = 0;
  unsigned arrived_ = 0;
  unsigned generation_ = 0;
  unsigned votes_[2] = {};
  unsigned place_ = 0;  // in the order of threads
  char begun_ = 0;
  char ended_ = 0;
  char barrier_[2] = {};
};

thread_local Block the_block;

void Block::serve() { the_block.serve_threads(*the_block.current_->fiber); }

}  // namespace

void prepare_thread() { the_block.prepare(); }

void run_grid(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
  Permutation order(blocks, threads);
  gridDim = {blocks, 1, 1};
  blockDim = {threads, 1, 1};
  for (unsigned i = 0; i < blocks; ++i) {
    blockIdx = {order.block(i), 0, 0};
    the_block.run(blockIdx.x, threads, thread, order);
  }
}

unsigned meet_block(Barrier kind, bool vote) { return the_block.meet(kind, vote); }

std::uint64_t meet_warp(Meeting kind, unsigned mask, std::uint64_t value, unsigned from) {
  return the_block.meet(kind, mask, value, from);
}

}  // namespace thinwire::fake_cuda
