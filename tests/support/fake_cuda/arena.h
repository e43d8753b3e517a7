// Where the memory of devices lies. The host's own code that reads or writes there while no kernel
// and no copy runs is stopped: by a fault, or by a report of the address sanitizer, which also sees
// the end of each piece. (Not under the thread sanitizer.) Callers hold the mutex of state.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace thinwire::fake_cuda {

class Arena {
 public:
  void* take(std::size_t bytes);  // null: no room
  void give_back(void* memory);
  // Until as many close() as open() were called, everybody may use the memory.
  void open();
  void close();
  bool is_open() const { return open_ > 0; }

 private:
  void allow(bool all);

  std::map<std::uintptr_t, std::size_t> taken_;  // first byte, bytes
  [[maybe_unused]] char* first_ = nullptr;
  [[maybe_unused]] std::size_t used_ = 0;  // bytes from the first to the end of what was ever taken
  int open_ = 0;
};

}  // namespace thinwire::fake_cuda
