// A comparison that never ran: adamw, demo and distro with three seeds each.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "apps/results.h"

namespace thinwire::app {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline MethodResult made_up_method(const std::string& name, double level, double bytes,
                                   double step_s) {
  MethodResult method;
  method.method = name;
  method.settings = "decay=0.999 k=8 lr=0.008 outer_lr=0.7";
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SeedResult one{.seed = seed, .curve = {}, .hash = "00c0ffee0000000" + std::to_string(seed)};
    for (std::uint64_t step = 0; step <= 1000; step += 50) {
      double done = static_cast<double>(step);
      double wave = 0.02 * std::sin(done * static_cast<double>(seed) / 40);
      one.curve.push_back({.step = step,
                           .loss = level + (5.55 - level) / (1 + done / 60) + wave,
                           .bytes_up = bytes * done,
                           .modelled_s = step_s * done});
    }
    method.seeds.push_back(std::move(one));
  }
  method.loss = level + 0.18;
  method.loss_sd = 0.0042;
  method.gap = level - 2.1;
  method.bytes_up = method.bytes_down = bytes;
  method.ratio_up = method.ratio_down = 702336 / bytes;
  method.compute_s = 0.012;
  method.step_s = step_s;
  method.time_to_loss_s = step_s * 800;
  method.tokens_per_s = 48123.4;
  method.peak_mb = 312.6;
  return method;
}

inline CompareResult made_up() {
  CompareResult result;
  result.methods = {made_up_method("adamw", 2.10, 702336, 0.2184),
                    made_up_method("demo", 2.13, 4096, 0.0625),
                    made_up_method("distro", 2.16, 327, 0.0121)};
  result.methods[1].skipped = 3;
  result.methods[2].time_to_loss_s.reset();
  result.methods[2].bytes_down = 981;
  result.methods[2].ratio_down = 702336 / 981.0;
  result.config =
      "[compare]\nmethods = [\"adamw\", \"demo\", \"distro\"]\nsteps = 1000 # <so far>\n";
  result.command = "thinwire compare --methods adamw,demo,distro --steps 1000 --seeds 1,2,3";
  result.model = "tiny: 2 layers, 64 wide, 4 heads, 64 bytes of context, 117,056 parameters";
  result.data = "kjv (4,137,850 bytes)";
  result.link = "100 Mbit/s, 50 ms round trip, no loss";
  result.sites = 4;
  result.steps = 1000;
  result.ring_bytes = 702336;
  result.target_loss = 2.35;
  result.machine = "made-up processor, 2 cores, g++ 12.2, 2026-11-30";
  return result;
}

}  // namespace thinwire::app
