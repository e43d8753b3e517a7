// Each thread works in its own stream of a device, cudaStreamPerThread, which nobody has to make or
// end. Memory comes from the device's pool in the order of that stream.
#include <cuda_runtime_api.h>

#include "src/device/check.h"
#include "src/device/runtime.h"
#include "thinwire/error.h"

namespace thinwire::device {
namespace {

constexpr int kNoSuchThing = -1;
constexpr int kMajorLeast = 8;  // of a device's compute capability: what kernels are built for

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

struct Machine {
  std::string problem;
  int devices = 0;
};

// Devices from the first on that the kernels were built for and that have pools of memory.
Machine with_usable(Machine machine) {
  for (int device = 0; device < machine.devices; ++device) {
    int major = 0;
    int pools = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, device);
    if (major >= kMajorLeast && pools != 0) continue;
    machine.devices = device;
    if (device > 0) break;
    machine.problem = "CUDA device 0 cannot be used (compute capability " + std::to_string(major) +
                      ".x, 8.0 is needed" + (pools == 0 ? "; no memory pools" : "") +
                      "); hide it with CUDA_VISIBLE_DEVICES, or use --device cpu";
  }
  return machine;
}

// The count is untouched when the call fails, hence its first value.
Machine look() {
  Machine machine;
  const cudaError_t answer = cudaGetDeviceCount(&machine.devices);
  if (answer == cudaSuccess && machine.devices > 0) return with_usable(machine);
  int driver = 0;
  int toolkit = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&toolkit);
  cudaGetLastError();  // it was heard
  machine.devices = 0;
  const std::string words =
      answer == cudaSuccess ? "no CUDA-capable device is detected" : cudaGetErrorString(answer);
  if (driver == 0) {
    machine.problem = "no CUDA driver is installed (" + words + "); install one for CUDA " +
                      version(toolkit) + ", or use --device cpu";
  } else if (driver < toolkit && answer == cudaErrorInsufficientDriver) {
    machine.problem = "the driver knows CUDA up to " + version(driver) + ", this program needs " +
                      version(toolkit) + " (" + words + "); update the driver, or use --device cpu";
  } else {
    machine.problem = "the driver has no device to give (" + words +
                      "); free one or give it to this process, or use --device cpu";
  }
  return machine;
}

const Machine& machine() {
  static const Machine found = look();
  return found;
}

// The runtime remembers a thread's device; asking for the same one again costs next to nothing.
void enter(int device) { check(cudaSetDevice(device), "choosing the device"); }

// What has been freed stays with the pool, for the next that asks.
void keep_pool(int device) {
  static thread_local int known = kNoSuchThing;
  if (known == device) return;
  known = device;
  cudaMemPool_t pool;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "asking for memory");
  std::uint64_t all = ~std::uint64_t{0};
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), "asking for memory");
}

// What the pool holds and nobody uses; what this thread has freed first.
void give_back_pool(int device) {
  cudaMemPool_t pool;
  check(cudaStreamSynchronize(cudaStreamPerThread), "waiting for the device");
  check(cudaDeviceGetDefaultMemPool(&pool, device), "asking for memory");
  check(cudaMemPoolTrimTo(pool, 0), "giving memory back");
}

}  // namespace

const std::string& problem() { return machine().problem; }
int count() { return machine().devices; }

std::string name(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "asking for the name of the device");
  return properties.name;
}

void* allocate(int device, std::size_t bytes) {
  enter(device);
  keep_pool(device);
  void* memory = nullptr;
  cudaError_t answer = cudaMallocAsync(&memory, bytes, cudaStreamPerThread);
  if (answer == cudaErrorMemoryAllocation) {  // the pool may hold what others could have
    cudaGetLastError();
    give_back_pool(device);
    answer = cudaMallocAsync(&memory, bytes, cudaStreamPerThread);
  }
  if (answer == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free, &total);
    throw Error("CUDA device " + std::to_string(device) + " has no room for " +
                std::to_string(bytes) + " bytes: " + std::to_string(free) + " of " +
                std::to_string(total) +
                " are free; take a smaller model or batch, or more ranks on other devices");
  }
  check(answer, "asking for memory");
  return memory;
}

void release(int device, void* memory) noexcept {
  cudaSetDevice(device);
  if (cudaFreeAsync(memory, cudaStreamPerThread) != cudaSuccess) cudaGetLastError();
}

void* allocate_pinned(std::size_t bytes) noexcept {
  if (count() == 0) return nullptr;
  void* memory = nullptr;
  if (cudaMallocHost(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

void release_pinned(void* memory) noexcept { cudaFreeHost(memory); }

void copy(int device, void* to, const void* from, std::size_t bytes, bool with_host) {
  enter(device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread), "copying");
  if (with_host) wait(device);
}

// Memory of a pool is not mapped on other devices: the driver has to be told of both.
void copy_between(int from_device, const void* from, int to_device, void* to, std::size_t bytes) {
  enter(from_device);
  check(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, cudaStreamPerThread),
        "copying between devices");
}

void zero(int device, void* memory, std::size_t bytes) {
  enter(device);
  check(cudaMemsetAsync(memory, 0, bytes, cudaStreamPerThread), "clearing memory");
}

void wait(int device) {
  enter(device);
  check(cudaStreamSynchronize(cudaStreamPerThread), "waiting for the device");
}

bool idle(int device) {
  enter(device);
  const cudaError_t answer = cudaStreamQuery(cudaStreamPerThread);
  if (answer == cudaErrorNotReady) {
    cudaGetLastError();  // which is remembered as an error all the same
    return false;
  }
  check(answer, "asking the device");
  return true;
}

void* record(int device) {
  enter(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  const cudaError_t answer = cudaEventRecord(event, cudaStreamPerThread);
  if (answer != cudaSuccess) cudaEventDestroy(event);
  check(answer, "recording an event");
  return event;
}

void follow(int device, void* event) {
  enter(device);
  check(cudaStreamWaitEvent(cudaStreamPerThread, static_cast<cudaEvent_t>(event), 0),
        "waiting for another thread");
}

void forget(int device, void* event) noexcept {
  cudaSetDevice(device);
  if (cudaEventDestroy(static_cast<cudaEvent_t>(event)) != cudaSuccess) cudaGetLastError();
}

}  // namespace thinwire::device
