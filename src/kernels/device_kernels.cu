#include "src/kernels/device_kernels.h"
#include "src/kernels/tile_twins.h"

namespace thinwire::kernels {

const DeviceKernels* device_kernels() {
  static const DeviceKernels table = [] {
    DeviceKernels made{};
    made.orthogonalize = twins::orthogonalize;
    made.extract = twins::extract;
    made.step_along = twins::step_along;
    made.inverse_said = twins::inverse_said;
    made.inverse_owed = twins::inverse_owed;
    made.give_back = twins::give_back;
    made.clear = twins::clear;
    return made;
  }();
  return &table;
}

}  // namespace thinwire::kernels
