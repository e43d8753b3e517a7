// What a comparison measured, as plain values: made by compare, written by report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/timeline.h"

namespace thinwire::app {

// One evaluation on the held-out text, of one seed.
struct CurvePoint {
  std::uint64_t step = 0;   // steps done
  double loss = 0.0;        // nats per byte
  double bytes_up = 0.0;    // sent by one site since the start
  double modelled_s = 0.0;  // on the modelled link, since the start
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::vector<CurvePoint> curve;  // ascending steps; the last one is the result
  double first_loss = 0.0;        // of the first step at site 0, on its training windows
  std::string hash;               // of the replicated state at the end, 16 hex digits
};

struct MethodResult {
  std::string method;             // "distro"
  std::string settings;           // "delay=0 k=8 ... lr=0.008": resolved, one line
  std::vector<SeedResult> seeds;  // at least one
  double loss = 0.0;              // mean over seeds of the last held-out loss
  double loss_sd = 0.0;           // sample standard deviation; 0 with one seed
  double gap = 0.0;               // loss minus adamw's; NaN when adamw did not take part
  double bytes_up = 0.0;          // per site and step, counted where frames meet the transport
  double bytes_down = 0.0;
  double ratio_up =
      0.0;  // bytes of an fp32 ring all-reduce of the model / bytes_up; NaN: none sent
  double ratio_down = 0.0;
  double compute_s = 0.0;                // CPU time of a step on one rank
  double step_s = 0.0;                   // modelled time of a step on the link
  std::optional<double> time_to_loss_s;  // modelled time until target_loss; none: not reached
  double tokens_per_s = 0.0;             // of the whole run on this machine
  double peak_mb = 0.0;                  // resident memory of the process at its highest, in MiB
  StepTimes times;            // of a step on one rank, by this machine's clock, mean over seeds
  std::uint64_t skipped = 0;  // contributions skipped because a gradient was not finite
};

struct CompareResult {
  std::string unsaved;                // see RunResult
  std::vector<MethodResult> methods;  // in the order asked for
  std::string config;                 // resolved configuration, TOML text
  std::string command;                // how to run it again
  std::string model;                  // "tiny: 2 layers, 64 wide, ... 117,056 parameters"
  std::string data;                   // "kjv (4,137,850 bytes)"
  std::string link;                   // "100 Mbit/s, 50 ms round trip, no loss"
  std::uint64_t parameters = 0;       // trainable
  int sites = 1;
  int ranks = 1;
  std::uint64_t steps = 0;
  double ring_bytes = 0.0;   // fp32 ring all-reduce of the model, per site and step, each way
  double target_loss = 0.0;  // of time_to_loss_s; NaN when every method diverged
  std::string machine;       // processor, cores, compiler, date
};

}  // namespace thinwire::app
