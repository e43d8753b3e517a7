#include "src/kernels/device_kernels.h"

namespace thinwire::kernels {

const DeviceKernels* device_kernels() { return nullptr; }

}  // namespace thinwire::kernels
