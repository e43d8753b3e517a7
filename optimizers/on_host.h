// For what a method does by hand, now and then, with a shard that may lie on a device.
#pragma once

#include <type_traits>

#include "thinwire/shard.h"

namespace thinwire {

// work(shard), on a copy on the host whose values the shard then takes where it lies elsewhere.
template <class Work>
auto on_host(Shard& shard, const Work& work) {
  if (shard.device().is_host()) return work(shard);
  Shard here = shard.copy_on(Device());
  if constexpr (std::is_void_v<decltype(work(here))>) {
    work(here);
    shard.take_values(here);
  } else {
    auto result = work(here);
    shard.take_values(here);
    return result;
  }
}

}  // namespace thinwire
