// The twins of the public kernels on a device: what they are asked for has been checked,
// and all floats lie on one device. Two sets: device_kernels.cu, and device_kernels_absent.cc where
// there is no toolkit. Bits are those of the functions on the host wherever these are [replicated],
// and of their AVX2 target in the fast transforms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/coarse_kernels.h"
#include "thinwire/kernels.h"
#include "thinwire/moment_kernels.h"
#include "thinwire/range_kernels.h"
#include "thinwire/shard.h"
#include "thinwire/tile_kernels.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

struct DeviceKernels {
  // elementwise.cu
  void (*scale_add)(Floats y, float a, ConstFloats x, float b);
  void (*scale)(Floats y, float a);
  void (*divide)(Floats y, float a);
  void (*sign_step)(Floats x, float keep, float lr, ConstFloats direction);
  void (*adamw)(Floats x, Floats m, Floats v, ConstFloats g, const AdamwStep& step);
  void (*lion)(Floats x, Floats m, ConstFloats g, const LionStep& step);
  void (*add_squares)(Floats v, float beta, ConstFloats g);
  void (*moment_step)(Floats x, ConstFloats m, ConstFloats v, const MomentStep& step);
  void (*round_to_bf16)(Floats x);
  void (*pack_bf16)(ConstFloats values, Floats packed);
  void (*unpack_bf16)(ConstFloats packed, Floats values);
  // sums.cu: of each range of x, in ranges' order
  void (*sum_squares)(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums);
  bool (*all_finite)(ConstFloats x);
  void (*hash)(ConstFloats x, std::span<const ShardRange> ranges,
               std::span<std::uint64_t> hashes);  // hash64 of each, seed 0
  // orthogonalize.cu
  void (*orthogonalize)(std::size_t rows, std::size_t cols, Floats matrix, int iterations);
  // tiles.cu and inverse_tiles.cu
  void (*extract)(Tiles tiles, ConstFloats values, std::size_t origin, const Extract& how,
                  Floats residual, const Lists& taken, Chosen& chosen);
  void (*step_along)(Tiles tiles, const Said& said, const Along& how, std::size_t origin, Floats x);
  double (*inverse_said)(Tiles tiles, const Said& said, Basis basis, std::size_t origin, Floats z);
  double (*inverse_owed)(Tiles tiles, ConstFloats residual, std::span<const Lists> lists,
                         Basis basis, std::size_t origin, Floats z);
  void (*give_back)(Tiles tiles, const Lists& lists, std::span<const std::uint16_t> counts,
                    Floats residual);
  void (*clear)(Tiles tiles, const Lists& lists);
  // coarse.cu; without scales each is 1
  void (*say_coarse)(Tiles tiles, Coarse coarse, Floats values, Words& words);
  void (*add_coarse)(Tiles tiles, Coarse coarse, const WordsView& words, Floats into);
  void (*say_signs)(Tiles tiles, ConstFloats values, Words& words);
};

// Null in a program that was built without CUDA, where no floats lie on a device.
const DeviceKernels* device_kernels();

}  // namespace thinwire::kernels
