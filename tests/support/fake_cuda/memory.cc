// New memory holds what is no number, and so does what was given back.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/support/fake_cuda/state.h"

namespace thinwire::fake_cuda {
namespace {

constexpr std::uint32_t kFresh = 0x7fa0f00du;  // a signalling NaN
constexpr std::uint32_t kGone = 0x7fa0deadu;   // another one
constexpr std::size_t kAlignment = 256;

using Lock = std::unique_lock<std::mutex>;

void fill(void* memory, std::size_t bytes, std::uint32_t pattern) {
  char* at = static_cast<char*>(memory);
  for (; bytes >= sizeof pattern; bytes -= sizeof pattern, at += sizeof pattern) {
    std::memcpy(at, &pattern, sizeof pattern);
  }
  std::memcpy(at, &pattern, bytes);
}

void* make(State& all, std::size_t bytes, Kind kind, int device) {
  void* memory = nullptr;
  if (kind == Kind::device) {
    memory = all.arena.take(bytes);
  } else if (posix_memalign(&memory, kAlignment, bytes) != 0) {
    return nullptr;
  }
  if (memory == nullptr) return nullptr;
  all.arena.open();
  fill(memory, bytes, kFresh);
  all.arena.close();
  all.memory[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, kind, device, false};
  (kind == Kind::device ? all.in_use[device] : all.pinned) += bytes;
  return memory;
}

cudaError_t make_on_device(State& all, void** memory, std::size_t bytes, int device) {
  if (bytes == 0) return cudaErrorInvalidValue;
  if (bytes > all.machine.bytes - all.in_use[device]) return cudaErrorMemoryAllocation;
  *memory = make(all, bytes, Kind::device, device);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// Null unless that is where a piece of that kind begins which nobody has given back.
Memory* find(State& all, void* memory, Kind kind) {
  const auto found = all.memory.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == all.memory.end() || found->second.kind != kind || found->second.given_back) {
    return nullptr;
  }
  return &found->second;
}

// From now on it counts as free; later remove() makes it so.
void give_back(State& all, Memory& piece) {
  piece.given_back = true;
  (piece.kind == Kind::device ? all.in_use[piece.device] : all.pinned) -= piece.bytes;
}

// Memory of a device as a piece of a stream's work, when nothing else can use it any more.
void remove(void* memory) {
  Lock lock(state().mutex);
  const auto found = state().memory.find(reinterpret_cast<std::uintptr_t>(memory));
  const Memory piece = found->second;
  state().memory.erase(found);
  lock.unlock();
  fill(memory, piece.bytes, kGone);
  if (piece.kind == Kind::pinned) return std::free(memory);
  lock.lock();
  state().arena.give_back(memory);
}

struct Place {
  bool known = false;  // device or pinned memory
  bool on_device = false;
  int device = 0;
  bool fits = true;
};

Place place_of(const State& all, const void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  auto after = all.memory.upper_bound(address);
  if (after == all.memory.begin()) return {};
  const auto& [first, piece] = *--after;
  if (address >= first + piece.bytes) return {};
  return {true, piece.kind == Kind::device, piece.device,
          !piece.given_back && bytes <= first + piece.bytes - address};
}

bool suits(cudaMemcpyKind kind, Place to, Place from) {
  if (!to.fits || !from.fits) return false;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to.on_device && !from.on_device;
    case cudaMemcpyHostToDevice:
      return to.on_device && !from.on_device;
    case cudaMemcpyDeviceToHost:
      return !to.on_device && from.on_device;
    case cudaMemcpyDeviceToDevice:
      return to.on_device && from.on_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// The closure holds what pageable memory held at the call.
std::function<void()> copying(void* to, const void* from, std::size_t bytes, Place source) {
  if (source.known) return [=] { std::memmove(to, from, bytes); };
  const char* first = static_cast<const char*>(from);
  return [to, taken = std::vector<char>(first, first + bytes)] {
    std::memcpy(to, taken.data(), taken.size());
  };
}

}  // namespace
}  // namespace thinwire::fake_cuda

using namespace thinwire::fake_cuda;

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  return remember(make_on_device(state(), memory, bytes, current_device()));
}

cudaError_t cudaFree(void* memory) {
  cudaDeviceSynchronize();
  return cudaFreeAsync(memory, cudaStreamPerThread) == cudaSuccess
             ? cudaStreamSynchronize(cudaStreamPerThread)
             : cudaPeekAtLastError();
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t handle) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  const StreamPointer stream = stream_of(state(), handle);
  if (!stream) return remember(cudaErrorInvalidResourceHandle);
  return remember(make_on_device(state(), memory, bytes, stream->device));
}

// A lost device gives back too.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer(state());
  Memory* const piece = find(state(), memory, Kind::device);
  if (piece == nullptr) return remember(error == cudaSuccess ? cudaErrorInvalidValue : error);
  const StreamPointer stream = stream_of(state(), handle);
  if (!stream) return remember(cudaErrorInvalidResourceHandle);
  give_back(state(), *piece);
  append(*stream, {[memory] { remove(memory); }, true});
  return remember(error);
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  if (!state().machine.pinned) return remember(cudaErrorMemoryAllocation);
  *memory = make(state(), bytes, Kind::pinned, 0);
  return remember(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void* memory) {
  Lock lock(state().mutex);
  const cudaError_t error = answer(state());
  Memory* const piece = find(state(), memory, Kind::pinned);
  if (piece == nullptr) return remember(error == cudaSuccess ? cudaErrorInvalidValue : error);
  give_back(state(), *piece);
  lock.unlock();
  remove(memory);
  return remember(error);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  *total = state().machine.bytes;
  *free = *total - state().in_use[current_device()];
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Lock lock(state().mutex);
  const Place target = place_of(state(), to, bytes);
  const Place source = place_of(state(), from, bytes);
  lock.unlock();
  if (!suits(kind, target, source)) return remember(cudaErrorInvalidValue);
  return hand_over(stream, copying(to, from, bytes, source));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  Lock lock(state().mutex);
  const Place target = place_of(state(), to, bytes);
  const Place source = place_of(state(), from, bytes);
  lock.unlock();
  const bool named = target.on_device && source.on_device && target.fits && source.fits &&
                     target.device == to_device && source.device == from_device;
  if (!named) return remember(cudaErrorInvalidValue);
  return hand_over(stream, copying(to, from, bytes, source));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread)) {
    return error;
  }
  return cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  Lock lock(state().mutex);
  const Place target = place_of(state(), memory, bytes);
  lock.unlock();
  if (!target.on_device || !target.fits) return remember(cudaErrorInvalidValue);
  return hand_over(stream, [=] { std::memset(memory, value, bytes); });
}
