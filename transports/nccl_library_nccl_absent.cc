#include "transports/nccl_api_internal.h"

namespace thinwire {

std::shared_ptr<NcclApi> load_nccl(const std::string&) { throw UsageError(kBuiltWithoutNccl); }

}  // namespace thinwire
