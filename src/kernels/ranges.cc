// The functions of range_kernels.h on the host.
#include <bit>
#include <cstring>

#include "src/kernels/bf16.h"
#include "src/kernels/dispatch.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/kernels.h"
#include "thinwire/range_kernels.h"

namespace thinwire::kernels {
namespace {

void check_ranges(ConstFloats x, std::span<const ShardRange> ranges, std::size_t results) {
  TW_CHECK(ranges.size() == results);
  for (const ShardRange& range : ranges) {
    TW_CHECK(range.offset <= x.size() && range.size <= x.size() - range.offset);
  }
}

std::uint32_t rounded(float value) { return to_bf16(std::bit_cast<std::uint32_t>(value)); }
float unrounded(std::uint32_t bf16) { return std::bit_cast<float>(from_bf16(bf16)); }

}  // namespace

void sum_squares(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums) {
  check_ranges(x, ranges, sums.size());
  if (const DeviceKernels* twins = twins_for(x)) return twins->sum_squares(x, ranges, sums);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    sums[i] = sum_squares(x.subspan(ranges[i].offset, ranges[i].size));
  }
}

void hash(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes) {
  check_ranges(x, ranges, hashes.size());
  if (const DeviceKernels* twins = twins_for(x)) return twins->hash(x, ranges, hashes);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    hashes[i] = hash64(x.subspan(ranges[i].offset, ranges[i].size));
  }
}

void round_to_bf16(Floats x) {
  if (const DeviceKernels* twins = twins_for(x)) return twins->round_to_bf16(x);
  for (float& value : x) value = unrounded(rounded(value));
}

void pack_bf16(ConstFloats values, Floats packed) {
  TW_CHECK(packed.size() == (values.size() + 1) / 2);
  if (const DeviceKernels* twins = twins_for(values, packed)) {
    return twins->pack_bf16(values, packed);
  }
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::uint32_t high = 2 * i + 1 < values.size() ? rounded(values[2 * i + 1]) : 0;
    const std::uint32_t pair = rounded(values[2 * i]) | high << 16;
    std::memcpy(&packed[i], &pair, sizeof pair);
  }
}

void unpack_bf16(ConstFloats packed, Floats values) {
  TW_CHECK(packed.size() == (values.size() + 1) / 2);
  if (const DeviceKernels* twins = twins_for(packed, values)) {
    return twins->unpack_bf16(packed, values);
  }
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::uint32_t pair;
    std::memcpy(&pair, &packed[i], sizeof pair);
    values[2 * i] = unrounded(pair & 0xffffu);
    if (2 * i + 1 < values.size()) values[2 * i + 1] = unrounded(pair >> 16);
  }
}

}  // namespace thinwire::kernels
