#include "tests/support/fake_cuda/machine.h"

#include <cstring>

#include "tests/support/fake_cuda/state.h"

namespace thinwire::fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

using Lock = std::lock_guard<std::mutex>;

cudaError_t check_device(const State& all, int device) {
  return device >= 0 && device < all.machine.devices ? cudaSuccess : cudaErrorInvalidDevice;
}

// Nothing of it is done, not even when the test goes on with another machine.
void drop_work(State& all) {
  for (const auto& one : all.streams) {
    const StreamPointer stream = one.lock();
    if (!stream) continue;
    for (Work& work : stream->work) {
      if (!work.gives_back) work.run = [] {};
    }
  }
}

}  // namespace

State& state() {
  static State* const all = new State;  // outlives every thread
  return *all;
}

void set_machine(const Machine& machine) {
  const Lock lock(state().mutex);
  state().machine = machine;
  state().lost = false;
  state().calls_until_lost = ~std::uint64_t{0};
}

void lose_devices(std::uint64_t calls) {
  const Lock lock(state().mutex);
  state().calls_until_lost = calls;
}

std::size_t bytes_in_use(int device) {
  const Lock lock(state().mutex);
  return state().in_use[device];
}

std::size_t pinned_bytes() {
  const Lock lock(state().mutex);
  return state().pinned;
}

std::uint64_t launches() {
  const Lock lock(state().mutex);
  return state().launches;
}

std::uint64_t calls() {
  const Lock lock(state().mutex);
  return state().calls;
}

cudaError_t answer(State& all) {
  ++all.calls;
  if (all.machine.driver < all.machine.runtime) return cudaErrorInsufficientDriver;
  if (all.machine.devices == 0) return cudaErrorNoDevice;
  if (!all.lost && all.calls_until_lost-- == 0) {
    all.lost = true;
    drop_work(all);
  }
  return loss(all);
}

// Who hears of it may end what running work writes to: a device that is lost has stopped.
cudaError_t loss(State& all) {
  if (!all.lost) return cudaSuccess;
  std::unique_lock<std::mutex> callers(all.mutex, std::adopt_lock);
  all.moved.wait(callers, [&] { return !all.arena.is_open(); });
  callers.release();
  return cudaErrorLaunchFailure;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

int current_device() { return device_of_thread; }

namespace {

cudaError_t answer_for(int device) {
  const cudaError_t first = answer(state());
  return first != cudaSuccess ? first : check_device(state(), device);
}

}  // namespace
}  // namespace thinwire::fake_cuda

using namespace thinwire::fake_cuda;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorUnknown:
      return "cudaErrorUnknown";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorUnknown:
      return "unknown error";
  }
  return "unrecognized error code";
}

// A device that is lost says so for ever.
cudaError_t cudaGetLastError() {
  const Lock lock(state().mutex);
  const cudaError_t lost = loss(state());
  const cudaError_t error = lost != cudaSuccess ? lost : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const Lock lock(state().mutex);
  return state().lost ? cudaErrorLaunchFailure : last_error;
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Lock lock(state().mutex);
  *version = state().machine.driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Lock lock(state().mutex);
  *version = state().machine.runtime;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer(state());
  if (error == cudaSuccess) *count = state().machine.devices;
  return remember(error);
}

cudaError_t cudaGetDevice(int* device) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer(state());
  if (error == cudaSuccess) *device = device_of_thread;
  return remember(error);
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer_for(device);
  if (error == cudaSuccess) device_of_thread = device;
  return remember(error);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer_for(device);
  if (error == cudaSuccess) {
    *properties = {};
    std::strcpy(properties->name, "Emulated device");
    properties->totalGlobalMem = state().machine.bytes;
    properties->major = 9;
    properties->multiProcessorCount = 4;
  }
  return remember(error);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer_for(device);
  if (error != cudaSuccess) return remember(error);
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = state().machine.capability / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const Lock lock(state().mutex);
  const cudaError_t error = answer_for(device);
  if (error == cudaSuccess) *pool = reinterpret_cast<cudaMemPool_t>(std::uintptr_t{1} + device);
  return remember(error);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) {
  const Lock lock(state().mutex);
  return remember(answer(state()));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  const Lock lock(state().mutex);
  return remember(answer(state()));
}
