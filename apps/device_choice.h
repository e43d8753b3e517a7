// --device: where a run's models work.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "thinwire/types.h"

namespace thinwire::app {

struct DeviceChoice {
  bool cuda = false;
  std::optional<int> index = {};  // the one device of all ranks; none: they take turns

  // Of the `rank`-th rank on this machine.
  Device of(std::size_t rank) const;
};

// What auto is here; anything else as it is. So that a run's settings say where it was.
std::string resolved_device(const std::string& text);

// auto (CUDA where a device can be used), cpu, cuda or cuda:N. Throws UsageError, with the driver's
// own answer where there is no usable device.
DeviceChoice parse_device(const std::string& text);

}  // namespace thinwire::app
