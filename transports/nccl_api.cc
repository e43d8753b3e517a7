#include "transports/nccl_api_internal.h"

namespace thinwire {

const char* text_of(NcclResult result) {
  switch (result) {
    case NcclResult::ok:
      return "all is well";
    case NcclResult::in_progress:
      return "in progress";
    case NcclResult::cuda:
      return "unhandled CUDA error";
    case NcclResult::system:
      return "system error";
    case NcclResult::internal:
      return "internal error";
    case NcclResult::invalid_argument:
      return "invalid argument";
    case NcclResult::invalid_usage:
      return "invalid usage";
    case NcclResult::remote:
      return "remote error: another rank has ended or the network failed";
    case NcclResult::absent:
      return "no such function";
  }
  return "unknown";
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version % 10'000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace thinwire
