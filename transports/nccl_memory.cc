#include <utility>

#include "transports/nccl_rank_internal.h"

namespace thinwire::near {

NcclMemory::~NcclMemory() {
  if (from_nccl_ != nullptr) api_.release(from_nccl_, device_);
}

void NcclMemory::make(std::size_t count) {
  if (floats_.size() > 0) return;
  from_nccl_ = api_.allocate(count, device_);
  if (from_nccl_ == nullptr) buffer_ = FloatBuffer(count, device_);
  floats_ = from_nccl_ == nullptr ? buffer_.floats() : Floats(from_nccl_, count, device_);
}

// Where it cannot be registered it is slower, no more.
void NcclMemory::enroll(NcclComm* comm) {
  if (from_nccl_ == nullptr) return;
  if (api_.register_memory(comm, floats_, handle_) != NcclResult::ok) handle_ = nullptr;
}

void NcclMemory::withdraw(NcclComm* comm) {
  void* const handle = std::exchange(handle_, nullptr);
  if (handle != nullptr && comm != nullptr) api_.deregister(comm, handle);
}

void NcclMemory::leak() {
  from_nccl_ = nullptr;
  handle_ = nullptr;
  floats_ = {};
  if (buffer_.size() > 0) static_cast<void>(new FloatBuffer(std::move(buffer_)));  // on purpose
}

}  // namespace thinwire::near
