// NCCL's own library behind the table: found and loaded when somebody asks for it, so that a
// program that does not never maps its 200 MB and starts where it is not installed.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "thinwire/device.h"
#include "transports/nccl_api_internal.h"
#include "transports/nccl_mean_internal.h"

namespace thinwire {

struct NcclComm {
  ncclComm_t comm = nullptr;
  Device device;
  cudaStream_t stream = nullptr;
  cudaEvent_t before = nullptr;  // what the calling thread had handed over
};

namespace {

constexpr int kOldest = 22200;  // several communicators are aborted as one from here on
constexpr char kInstall[] =
    "; install NCCL 2.22 or newer for CUDA (libnccl2), or add its directory to LD_LIBRARY_PATH";

static_assert(sizeof(NcclId) == NCCL_UNIQUE_ID_BYTES);

NcclResult ours(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return NcclResult::ok;
    case ncclInProgress:
      return NcclResult::in_progress;
    case ncclUnhandledCudaError:
      return NcclResult::cuda;
    case ncclSystemError:
      return NcclResult::system;
    case ncclInvalidArgument:
      return NcclResult::invalid_argument;
    case ncclInvalidUsage:
      return NcclResult::invalid_usage;
    case ncclRemoteError:
      return NcclResult::remote;
    default:
      return NcclResult::internal;
  }
}

ncclComm_t theirs(NcclComm* comm) { return comm == nullptr ? nullptr : comm->comm; }

void check(cudaError_t answer) {
  if (answer == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string("the CUDA device failed beside NCCL: ") + cudaGetErrorString(answer));
}

class Library {
 public:
  explicit Library(const std::string& path) {
    std::string why;
    // Ranks that are threads would reach into each other's floats, which lie in pools of memory
    // that are not mapped on other devices.
    ::setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
    for (const std::string& file : {path, std::string(THINWIRE_NCCL_DIR) + "/" + path}) {
      handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
      if (handle_ != nullptr) return;
      if (why.empty()) why = ::dlerror();
      if (path.find('/') != path.npos) break;
    }
    throw UsageError("NCCL cannot be loaded (" + why + ")" + kInstall);
  }

  template <class Function>
  void find(Function*& function, const char* name) const {
    find_if_there(function, name);
    if (function == nullptr) {
      throw UsageError(std::string("the library that is NCCL here has no ") + name + kInstall);
    }
  }

  template <class Function>
  void find_if_there(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

class LoadedNccl final : public NcclApi {
 public:
  explicit LoadedNccl(const Library& library) {
    library.find(version_, "ncclGetVersion");
    library.find(last_error_, "ncclGetLastError");
    library.find(unique_id_, "ncclGetUniqueId");
    library.find(init_, "ncclCommInitRankConfig");
    library.find(state_, "ncclCommGetAsyncError");
    library.find_if_there(revoke_, "ncclCommRevoke");
    library.find(abort_, "ncclCommAbort");
    library.find(finalize_, "ncclCommFinalize");
    library.find(destroy_, "ncclCommDestroy");
    library.find(group_start_, "ncclGroupStart");
    library.find(group_end_, "ncclGroupEnd");
    library.find(send_, "ncclSend");
    library.find(recv_, "ncclRecv");
    library.find(broadcast_, "ncclBroadcast");
    library.find(all_gather_, "ncclAllGather");
    library.find(reduce_, "ncclReduce");
    library.find(reduce_scatter_, "ncclReduceScatter");
    library.find(all_reduce_, "ncclAllReduce");
    library.find_if_there(allocate_, "ncclMemAlloc");
    library.find_if_there(release_, "ncclMemFree");
    library.find_if_there(register_, "ncclCommRegister");
    library.find_if_there(deregister_, "ncclCommDeregister");
    if (version() < kOldest) {
      throw UsageError("NCCL " + nccl_version_text(version()) + " is too old" + kInstall);
    }
  }

  int version() override {
    int number = 0;
    return version_(&number) == ncclSuccess ? number : 0;
  }
  std::string last_error(NcclComm* comm) override {
    const char* text = last_error_(theirs(comm));
    return text == nullptr ? "" : text;
  }

  NcclResult unique_id(NcclId& id) override {
    return ours(unique_id_(reinterpret_cast<ncclUniqueId*>(id.data())));
  }

  NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank, Device device) override {
    comm = nullptr;
    auto made = std::make_unique<NcclComm>(NcclComm{.device = device});
    if (!enter(device)) return NcclResult::cuda;
    if (!device.is_host()) {
      check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking));
      check(cudaEventCreateWithFlags(&made->before, cudaEventDisableTiming));
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId copy;
    std::copy(id.begin(), id.end(), copy.internal);
    const ncclResult_t result = init_(&made->comm, size, copy, rank, &config);
    if (made->comm != nullptr) comm = made.release();
    return ours(result);
  }

  NcclResult state(NcclComm* comm) override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t answer = state_(theirs(comm), &state);
    return ours(answer == ncclSuccess ? state : answer);
  }
  NcclResult revoke(NcclComm* comm) override {
    if (revoke_ == nullptr) return NcclResult::absent;
    enter(comm->device);
    return ours(revoke_(theirs(comm), NCCL_REVOKE_DEFAULT));
  }
  NcclResult abort(NcclComm* comm) override {
    enter(comm->device);
    // Its stream is left alone: something may hang in it for good.
    return ours(abort_(std::unique_ptr<NcclComm>(comm)->comm));
  }
  NcclResult finalize(NcclComm* comm) override {
    enter(comm->device);
    return ours(finalize_(theirs(comm)));
  }
  NcclResult destroy(NcclComm* comm) override {
    enter(comm->device);
    const std::unique_ptr<NcclComm> gone(comm);
    const ncclResult_t result = destroy_(gone->comm);
    if (gone->stream != nullptr) cudaStreamDestroy(gone->stream);
    if (gone->before != nullptr) cudaEventDestroy(gone->before);
    return ours(result);
  }

  NcclResult group_start() override { return ours(group_start_()); }
  NcclResult group_end() override { return ours(group_end_()); }

  void follow(NcclComm* comm) override {
    if (comm->device.is_host()) return;
    check(cudaSetDevice(comm->device.index()));
    check(cudaEventRecord(comm->before, cudaStreamPerThread));
    check(cudaStreamWaitEvent(comm->stream, comm->before, 0));
  }

  NcclResult send(ConstFloats data, int peer, NcclComm* comm) override {
    enter(data.device());
    return ours(send_(data.data(), data.size(), ncclUint32, peer, theirs(comm), comm->stream));
  }
  NcclResult recv(Floats data, int peer, NcclComm* comm) override {
    enter(data.device());
    return ours(recv_(data.data(), data.size(), ncclUint32, peer, theirs(comm), comm->stream));
  }
  NcclResult broadcast(Floats data, int root, NcclComm* comm) override {
    enter(data.device());
    return ours(broadcast_(data.data(), data.data(), data.size(), ncclUint32, root, theirs(comm),
                           comm->stream));
  }
  NcclResult all_gather(ConstFloats mine, Floats whole, NcclComm* comm) override {
    enter(whole.device());
    return ours(all_gather_(mine.data(), whole.data(), mine.size(), ncclUint32, theirs(comm),
                            comm->stream));
  }
  NcclResult reduce_mean(ConstFloats data, Floats out, int root, NcclComm* comm) override {
    enter(data.device());
    return ours(reduce_(data.data(), out.data(), data.size(), ncclFloat32, ncclAvg, root,
                        theirs(comm), comm->stream));
  }
  NcclResult reduce_scatter_mean(ConstFloats whole, Floats mine, NcclComm* comm) override {
    enter(whole.device());
    return ours(reduce_scatter_(whole.data(), mine.data(), mine.size(), ncclFloat32, ncclAvg,
                                theirs(comm), comm->stream));
  }
  NcclResult all_reduce_mean(Floats data, NcclComm* comm) override {
    enter(data.device());
    return ours(all_reduce_(data.data(), data.data(), data.size(), ncclFloat32, ncclAvg,
                            theirs(comm), comm->stream));
  }

  float* allocate(std::size_t floats, Device device) override {
    void* memory = nullptr;
    if (allocate_ == nullptr || release_ == nullptr || device.is_host() || !enter(device)) {
      return nullptr;
    }
    if (allocate_(&memory, floats * sizeof(float)) == ncclSuccess) {
      return static_cast<float*>(memory);
    }
    cudaGetLastError();  // it was heard
    return nullptr;
  }
  void release(float* memory, Device device) override {
    enter(device);
    release_(memory);
  }
  NcclResult register_memory(NcclComm* comm, Floats memory, void*& handle) override {
    if (register_ == nullptr || deregister_ == nullptr) return NcclResult::absent;
    return ours(register_(theirs(comm), memory.data(), memory.size_bytes(), &handle));
  }
  NcclResult deregister(NcclComm* comm, void* handle) override {
    return ours(deregister_(theirs(comm), handle));
  }

  bool idle(NcclComm* comm, Device device) override {
    if (comm->stream != nullptr) {
      check(cudaSetDevice(device.index()));
      const cudaError_t answer = cudaStreamQuery(comm->stream);
      if (answer == cudaErrorNotReady) return false;
      check(answer);
    }
    return is_idle(device);
  }

  void mean(std::span<const float* const> sources, Floats out) override { nccl_mean(sources, out); }

  std::string identity(Device device) override {
    cudaDeviceProp properties;
    if (device.is_host() || cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) {
      return "";
    }
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
      char digits[4];
      std::snprintf(digits, sizeof digits, "%02x",
                    static_cast<unsigned char>(properties.uuid.bytes[i]));
      if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      text += digits;
    }
    return text;
  }

 private:
  static bool enter(Device device) {
    return device.is_host() || cudaSetDevice(device.index()) == cudaSuccess;
  }

  decltype(&ncclGetVersion) version_ = nullptr;
  decltype(&ncclGetLastError) last_error_ = nullptr;
  decltype(&ncclGetUniqueId) unique_id_ = nullptr;
  decltype(&ncclCommInitRankConfig) init_ = nullptr;
  decltype(&ncclCommGetAsyncError) state_ = nullptr;
  decltype(&ncclCommRevoke) revoke_ = nullptr;
  decltype(&ncclCommAbort) abort_ = nullptr;
  decltype(&ncclCommFinalize) finalize_ = nullptr;
  decltype(&ncclCommDestroy) destroy_ = nullptr;
  decltype(&ncclGroupStart) group_start_ = nullptr;
  decltype(&ncclGroupEnd) group_end_ = nullptr;
  decltype(&ncclSend) send_ = nullptr;
  decltype(&ncclRecv) recv_ = nullptr;
  decltype(&ncclBroadcast) broadcast_ = nullptr;
  decltype(&ncclAllGather) all_gather_ = nullptr;
  decltype(&ncclReduce) reduce_ = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter_ = nullptr;
  decltype(&ncclAllReduce) all_reduce_ = nullptr;
  decltype(&ncclMemAlloc) allocate_ = nullptr;
  decltype(&ncclMemFree) release_ = nullptr;
  decltype(&ncclCommRegister) register_ = nullptr;
  decltype(&ncclCommDeregister) deregister_ = nullptr;
};

}  // namespace

std::shared_ptr<NcclApi> load_nccl(const std::string& path) {
  return std::make_shared<LoadedNccl>(Library(path.empty() ? "libnccl.so.2" : path));
}

}  // namespace thinwire
