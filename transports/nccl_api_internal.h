// What we use of NCCL, in our own words, as one table of functions: nothing else knows nccl.h, so
// all that is built on it is compiled and tested without NCCL, against a table that plays its part
// and its failures. Internal to transports/nccl*.
//
// No call waits for other ranks: what is begun is done when state() and idle() say so. One thread
// at a time on a communicator.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire {

// NCCL's classes of errors. `absent`: this library does not have the function.
enum class NcclResult {
  ok,
  in_progress,
  cuda,
  system,
  internal,
  invalid_argument,
  invalid_usage,
  remote,
  absent
};

struct NcclComm;  // opaque

using NcclId = std::array<char, 128>;

class NcclApi {
 public:
  virtual ~NcclApi() = default;

  virtual int version() = 0;  // as 22809
  virtual std::string last_error(NcclComm* comm) = 0;

  virtual NcclResult unique_id(NcclId& id) = 0;
  // `comm` is null where nothing was begun.
  virtual NcclResult init(NcclComm*& comm, int size, const NcclId& id, int rank, Device device) = 0;
  // Of the communicator: what it has taken in is in the stream once this is not in_progress.
  virtual NcclResult state(NcclComm* comm) = 0;
  // All of these may hang where a rank has crashed.
  virtual NcclResult revoke(NcclComm*) { return NcclResult::absent; }
  virtual NcclResult abort(NcclComm* comm) = 0;
  virtual NcclResult finalize(NcclComm* comm) = 0;
  virtual NcclResult destroy(NcclComm* comm) = 0;

  // Calls between the two are begun together by the second.
  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;

  // What the communicator does from now on is done after all that the calling thread has handed
  // over to the device. It works in a stream of its own: NCCL may start kernels from threads of its
  // own, where "the calling thread's stream" is another one.
  virtual void follow(NcclComm*) {}

  // Carried as words, not computed with:
  virtual NcclResult send(ConstFloats data, int peer, NcclComm* comm) = 0;
  virtual NcclResult recv(Floats data, int peer, NcclComm* comm) = 0;
  virtual NcclResult broadcast(Floats data, int root, NcclComm* comm) = 0;
  // Equal parts; `mine` may lie in its own place.
  virtual NcclResult all_gather(ConstFloats mine, Floats whole, NcclComm* comm) = 0;
  // Means, in NCCL's order. `out` is written by the root alone.
  virtual NcclResult reduce_mean(ConstFloats data, Floats out, int root, NcclComm* comm) = 0;
  virtual NcclResult reduce_scatter_mean(ConstFloats whole, Floats mine, NcclComm* comm) = 0;
  virtual NcclResult all_reduce_mean(Floats data, NcclComm* comm) = 0;

  // Memory that NCCL likes best; null where it has none to give. Registered: used in place.
  virtual float* allocate(std::size_t, Device) { return nullptr; }
  virtual void release(float*, Device) {}
  virtual NcclResult register_memory(NcclComm*, Floats, void*&) { return NcclResult::absent; }
  virtual NcclResult deregister(NcclComm*, void*) { return NcclResult::absent; }

  // Of the device itself. Is all done that the communicator and the calling thread have handed
  // over? Throws Error when the device is lost.
  virtual bool idle(NcclComm* comm, Device device) = 0;
  // out = mean of the sources in their order, as ordered_mean, in the calling thread's stream.
  virtual void mean(std::span<const float* const> sources, Floats out) = 0;
  // Names one device among all of all machines; empty where there is none.
  virtual std::string identity(Device device) = 0;
};

// Loads NCCL's own library on the first call; it stays loaded. Throws UsageError that says what to
// install where it, or one of the functions it must have, is missing. `path`: another library than
// the installed one.
std::shared_ptr<NcclApi> load_nccl(const std::string& path = {});

const char* text_of(NcclResult result);
std::string nccl_version_text(int version);  // 22809 is 2.28.9

// For a program that was built without NCCL's header.
inline constexpr char kBuiltWithoutNccl[] =
    "this program was built without NCCL; build it where the CUDA Toolkit and NCCL are installed";

}  // namespace thinwire
