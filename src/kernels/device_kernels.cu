#include "src/kernels/coarse_twins.h"
#include "src/kernels/device_kernels.h"
#include "src/kernels/flat_twins.h"
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
    made.say_coarse = twins::say_coarse;
    made.add_coarse = twins::add_coarse;
    made.say_signs = twins::say_signs;
    made.scale_add = twins::scale_add;
    made.scale = twins::scale;
    made.divide = twins::divide;
    made.sign_step = twins::sign_step;
    made.adamw = twins::adamw;
    made.lion = twins::lion;
    made.add_squares = twins::add_squares;
    made.moment_step = twins::moment_step;
    made.round_to_bf16 = twins::round_to_bf16;
    made.pack_bf16 = twins::pack_bf16;
    made.unpack_bf16 = twins::unpack_bf16;
    made.sum_squares = twins::sum_squares;
    made.all_finite = twins::all_finite;
    made.hash = twins::hash;
    return made;
  }();
  return &table;
}

}  // namespace thinwire::kernels
