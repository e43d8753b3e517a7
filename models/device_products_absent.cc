#include "models/device_products_internal.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire::gpt {

std::unique_ptr<DeviceProducts> make_device_products(Device) { throw Error(cuda_problem()); }

}  // namespace thinwire::gpt
