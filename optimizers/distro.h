// DisTrO with the settings it is deployed with on small models (Psyche): votes, k = 8; with a delay
// it looks ahead by all that it owes.
#pragma once

#include "optimizers/demo.h"

namespace thinwire {

inline Demo::Options distro(int delay) {
  return {.name = "distro",
          .k = 8,
          .bits = 1,
          .weight_decay = 0.1f,
          .delay = delay,
          .look_ahead = delay > 0 ? 1.0f : 0.0f};
}

}  // namespace thinwire
