#include "models/cublas_internal.h"

namespace thinwire::gpt {

std::unique_ptr<DeviceProducts> make_device_products(Device device) {
  static const CublasLt lt = load_cublas(cublas_files());
  return make_cublas_products(device, lt);
}

}  // namespace thinwire::gpt
