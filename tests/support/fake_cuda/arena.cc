#include "tests/support/fake_cuda/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/fake_cuda/sanitizer.h"

namespace thinwire::fake_cuda {

#if defined(THINWIRE_SANITIZE_ADDRESSES) || defined(THINWIRE_SANITIZE_THREADS)

namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

void* Arena::take(std::size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0) return nullptr;
  taken_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

void Arena::give_back(void* memory) {
  taken_.erase(reinterpret_cast<std::uintptr_t>(memory));
  std::free(memory);
}

void Arena::allow(bool all) {
  for (const auto& [first, bytes] : taken_) {
    forbid_addresses(reinterpret_cast<const void*>(first), bytes, !all);
  }
}

#else

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kReserved = std::size_t{64} << 30;  // of addresses

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

// The first gap that is large enough.
void* Arena::take(std::size_t bytes) {
  if (first_ == nullptr) {
    void* const all =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    first_ = static_cast<char*>(all);
  }
  auto at = reinterpret_cast<std::uintptr_t>(first_);
  for (const auto& [begin, size] : taken_) {
    if (begin - at >= whole_pages(bytes)) break;
    at = begin + whole_pages(size);
  }
  const std::size_t end = at - reinterpret_cast<std::uintptr_t>(first_) + whole_pages(bytes);
  if (end > kReserved) return nullptr;
  taken_[at] = bytes;
  if (end > used_) {
    used_ = end;
    if (open_ > 0) allow(true);
  }
  return reinterpret_cast<void*>(at);
}

void Arena::give_back(void* memory) { taken_.erase(reinterpret_cast<std::uintptr_t>(memory)); }

void Arena::allow(bool all) {
  if (used_ == 0) return;
  if (mprotect(first_, used_, all ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::perror("the memory of an emulated device");
    std::abort();
  }
}

#endif

void Arena::open() {
  if (open_++ == 0) allow(true);
}

void Arena::close() {
  if (--open_ == 0) allow(false);
}

}  // namespace thinwire::fake_cuda
