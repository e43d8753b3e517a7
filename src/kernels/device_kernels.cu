#include "src/kernels/device_kernels.h"

namespace thinwire::kernels {

const DeviceKernels* device_kernels() {
  static const DeviceKernels table{};
  return &table;
}

}  // namespace thinwire::kernels
