// What block.cc tells the thread sanitizer: which thread of a block runs, and what orders them.
// Empty in other builds.
#pragma once

#ifdef THINWIRE_SANITIZE_THREADS
#include <sanitizer/tsan_interface.h>
#endif

namespace thinwire::fake_cuda {

#ifdef THINWIRE_SANITIZE_THREADS
inline constexpr bool kSanitizeThreads = true;
inline void* sanitizer_fiber() { return __tsan_get_current_fiber(); }
inline void* make_sanitizer_fiber() { return __tsan_create_fiber(0); }
inline void end_sanitizer_fiber(void* fiber) {
  if (fiber != nullptr) __tsan_destroy_fiber(fiber);
}
// Orders nothing by itself.
inline void change_sanitizer_fiber(void* fiber) {
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
}
inline void release(void* address) { __tsan_release(address); }
inline void acquire(void* address) { __tsan_acquire(address); }
#else
inline constexpr bool kSanitizeThreads = false;
inline void* sanitizer_fiber() { return nullptr; }
inline void* make_sanitizer_fiber() { return nullptr; }
inline void end_sanitizer_fiber(void*) {}
inline void change_sanitizer_fiber(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
#endif

}  // namespace thinwire::fake_cuda
