// The twins of elementwise.cc, moments.cc and ranges.cc, for the table of device_kernels.h.
#pragma once

#include "src/kernels/device_kernels.h"

namespace thinwire::kernels::twins {

void scale_add(Floats y, float a, ConstFloats x, float b);
void scale(Floats y, float a);
void divide(Floats y, float a);
void sign_step(Floats x, float keep, float lr, ConstFloats direction);
void adamw(Floats x, Floats m, Floats v, ConstFloats g, const AdamwStep& step);
void lion(Floats x, Floats m, ConstFloats g, const LionStep& step);
void add_squares(Floats v, float beta, ConstFloats g);
void moment_step(Floats x, ConstFloats m, ConstFloats v, const MomentStep& step);
void round_to_bf16(Floats x);
void pack_bf16(ConstFloats values, Floats packed);
void unpack_bf16(ConstFloats packed, Floats values);
void sum_squares(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums);
bool all_finite(ConstFloats x);
void hash(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes);

}  // namespace thinwire::kernels::twins
