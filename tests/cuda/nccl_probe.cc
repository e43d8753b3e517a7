// A module that needs NCCL. Who loads it needs NCCL from then on, not before.
#include <nccl.h>

extern "C" int nccl_probe_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : -1;
}
