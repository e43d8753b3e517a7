// Host or device: asked at the top of a public function.
#pragma once

#include "src/kernels/device_kernels.h"
#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// The kernels of the device where all of these floats lie; null when they lie on the host.
template <class... Spans>
const DeviceKernels* twins_for(ConstFloats first, const Spans&... others) {
  TW_CHECK(((first.device() == others.device()) && ...));
  if (first.on_host()) return nullptr;
  const DeviceKernels* const twins = device_kernels();
  TW_CHECK(twins != nullptr);
  return twins;
}

}  // namespace thinwire::kernels
