// How the ranks of a site hold one replica between them.
//
// The optimizer always works on shards, so that sharding and prefetch change no bit of the result.
// What the sites of a run must have in common is clip, accumulate, gather, reduce and wrap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "thinwire/timeline.h"

namespace thinwire {

// What every rank keeps whole, and what is spread over the ranks (docs/sharding.md).
//   none       everything whole; the gradient is all-reduced. Between sites: one rank a site
//   optimizer  the optimizer's state is spread (ZeRO-1)
//   gradient   and the gradient (ZeRO-2)
//   full       and the parameters: gathered before use, freed after it (ZeRO-3)
enum class Sharding { none, optimizer, gradient, full };

// How floats travel on the near link. bf16 halves the bytes: values are rounded to nearest even,
// what is kept and every sum stays fp32.
enum class NearType { fp32, bf16 };

// Which declared units are gathered together: each on its own (0 bytes), as many consecutive ones
// as make at least `bytes` bytes, or all in one (kWrapAll).
inline constexpr std::size_t kWrapAll = ~std::size_t{0};
struct Wrap {
  std::size_t bytes = 0;
};

struct SiteOptions {
  Sharding sharding = Sharding::full;
  Wrap wrap = {};
  NearType gather = NearType::fp32;  // parameters on their way to the model
  NearType reduce = NearType::fp32;  // gradients on their way to the mean
  // Micro-batches of a step. Their gradients are added up in fp32 on each rank and meet once.
  int accumulate = 1;
  float clip = 0.0f;     // the site's gradient is scaled down to this norm; 0: never
  bool prefetch = true;  // the near link works on a thread of its own, one unit ahead
  SpanSink* spans = nullptr;

  // Throws UsageError.
  void validate() const;
  // What sites must have in common, as text.
  std::string agreement() const;
};

// By name; UsageError lists the names. wrap: unit, size:BYTES or all.
Sharding parse_sharding(std::string_view name);
NearType parse_near_type(std::string_view name);
Wrap parse_wrap(std::string_view text);
const char* to_string(Sharding sharding);
const char* to_string(NearType type);

}  // namespace thinwire
