// Computations with a stack each, of which a thread runs one at a time. The address sanitizer is
// told of every change of stacks.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace thinwire::fake_cuda {

class Fiber {
 public:
  Fiber() = default;               // what the calling thread runs already
  explicit Fiber(void (*body)());  // runs from the first switch on, and must never return
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on with `to` where it stood; returns when somebody switches to `from`.
  static void change(Fiber& from, Fiber& to);

 private:
  static void enter();
  void arrive();

  void (*body_)() = nullptr;
  Fiber* came_from_ = nullptr;
  void* mapping_ = nullptr;
  const void* stack_ = nullptr;  // lowest address
  std::size_t stack_bytes_ = 0;
  [[maybe_unused]] void* shadow_ = nullptr;  // of the address sanitizer
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
};

}  // namespace thinwire::fake_cuda
