#include "tests/support/fake_cuda/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/support/fake_cuda/sanitizer.h"

namespace thinwire::fake_cuda {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // touched pages alone are paid for

thread_local Fiber* arriving = nullptr;

}  // namespace

// Without a system call, which swapcontext makes two of.
#if defined(__x86_64__)
extern "C" void thinwire_change_stack(void** save, void* to);
asm(R"(
.text
.globl thinwire_change_stack
.type thinwire_change_stack, @function
thinwire_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size thinwire_change_stack, .-thinwire_change_stack
)");
#endif

Fiber::Fiber(void (*body)()) : body_(body) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mapping_ = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED || mprotect(mapping_, page, PROT_NONE) != 0) {
    std::perror("a stack for a thread of a block");
    std::abort();
  }
  char* lowest = static_cast<char*>(mapping_) + page;
  stack_ = lowest;
  stack_bytes_ = kStackBytes;
#if defined(__x86_64__)
  // Six registers, the place to go to, and nowhere to return to.
  auto* top = reinterpret_cast<std::uintptr_t*>(lowest + kStackBytes) - 1;
  *top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  stack_pointer_ = top - 6;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = lowest;
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, &Fiber::enter, 0);
#endif
}

Fiber::~Fiber() {
  if (mapping_ != nullptr) {
    munmap(mapping_, kStackBytes + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  }
}

void Fiber::enter() {
  Fiber* self = arriving;
  self->arrive();
  self->body_();
  std::abort();
}

void Fiber::arrive() {
#ifdef THINWIRE_SANITIZE_ADDRESSES
  __sanitizer_finish_switch_fiber(shadow_, &came_from_->stack_, &came_from_->stack_bytes_);
#endif
}

void Fiber::change(Fiber& from, Fiber& to) {
  to.came_from_ = &from;
  arriving = &to;
#ifdef THINWIRE_SANITIZE_ADDRESSES
  __sanitizer_start_switch_fiber(&from.shadow_, to.stack_, to.stack_bytes_);
#endif
#if defined(__x86_64__)
  thinwire_change_stack(&from.stack_pointer_, to.stack_pointer_);
#else
  swapcontext(&from.context_, &to.context_);
#endif
  from.arrive();
}

}  // namespace thinwire::fake_cuda
