// What is told to sanitizers: which thread of a block runs and what orders them, which addresses
// nobody may use now. Empty in other builds.
#pragma once

#ifdef THINWIRE_SANITIZE_THREADS
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define THINWIRE_SANITIZE_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define THINWIRE_SANITIZE_ADDRESSES 1
#endif
#endif
#ifdef THINWIRE_SANITIZE_ADDRESSES
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include <cstddef>

namespace thinwire::fake_cuda {

#ifdef THINWIRE_SANITIZE_ADDRESSES
inline void forbid_addresses(const void* first, std::size_t bytes, bool forbidden) {
  if (forbidden) {
    __asan_poison_memory_region(first, bytes);
  } else {
    __asan_unpoison_memory_region(first, bytes);
  }
}
#else
inline void forbid_addresses(const void*, std::size_t, bool) {}
#endif

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
