#include "src/device/runtime.h"
#include "thinwire/error.h"

namespace thinwire::device {
namespace {

[[noreturn]] void refuse() { throw Error(problem()); }

}  // namespace

const std::string& problem() {
  static const std::string why =
      "this program was built without CUDA; build it where the CUDA Toolkit is installed, or use "
      "--device cpu";
  return why;
}

int count() { return 0; }
std::string name(int) { refuse(); }
void* allocate(int, std::size_t) { refuse(); }
void release(int, void*) noexcept {}
void* allocate_pinned(std::size_t) noexcept { return nullptr; }
void release_pinned(void*) noexcept {}
void copy(int, void*, const void*, std::size_t, bool) { refuse(); }
void copy_between(int, const void*, int, void*, std::size_t) { refuse(); }
void zero(int, void*, std::size_t) { refuse(); }
void wait(int) { refuse(); }
bool idle(int) { refuse(); }
void* record(int) { refuse(); }
void follow(int, void*) { refuse(); }
void forget(int, void*) noexcept {}

}  // namespace thinwire::device
