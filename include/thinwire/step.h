// What an optimizer is told about the step it works in. Equal on all ranks and sites except `norm`
// and `compute_s`, which differ between sites.
#pragma once

#include <cstdint>

namespace thinwire {

struct Step {
  std::uint64_t index = 0;  // counts from 0
  std::uint64_t round = 0;  // rounds before this step: the number of its own, if it has one
  bool speaks = true;       // has it one? (Optimizer::speaks)
  float lr = 0.0f;          // of this step, from the schedule
  int age = 0;              // how many steps ago the updates that apply hears were extracted
  int sites = 1;            // members of the run
  int phase = 0;            // in apply and take_back: 0 .. Traits::phases - 1
  int micro = 0;            // for the model: which of the step's micro-batches,
  int micros = 1;           // and how many there are; the optimizer sees 0 of 1
  // Global L2 norm over all shards of the site. In extract: of the site's mean gradient (it differs
  // between sites). In apply: of the mean dense update, for methods that meet by `reduce`; else 0.
  double norm = 0.0;
  // In extract, where Traits::wants_time: seconds that this site's recent steps took to compute,
  // without its waits, by its own clock; the same on its ranks, 0 before its first step is done.
  // For methods that choose how much to say. Anything that reads it cannot be repeated to the bit.
  double compute_s = 0.0;

  bool operator==(const Step&) const = default;
};

}  // namespace thinwire
