#include <bit>
#include <cstring>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/kernels.h"
#include "thinwire/range_kernels.h"

namespace thinwire::kernels {
namespace {
std::uint32_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;  // a quiet NaN
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
float float_of(std::uint32_t bf16) { return std::bit_cast<float>(bf16 << 16); }
}  // namespace

void sum_squares(ConstFloats x, std::span<const ShardRange> ranges, std::span<double> sums) {
  for (std::size_t i = 0; i < ranges.size(); ++i)
    sums[i] = sum_squares(x.subspan(ranges[i].offset, ranges[i].size));
}
void hash(ConstFloats x, std::span<const ShardRange> ranges, std::span<std::uint64_t> hashes) {
  for (std::size_t i = 0; i < ranges.size(); ++i)
    hashes[i] = hash64(x.subspan(ranges[i].offset, ranges[i].size));
}
void round_to_bf16(Floats x) {
  for (float& value : x) value = float_of(bf16_bits(value));
}
void pack_bf16(ConstFloats values, Floats packed) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::uint32_t high = 2 * i + 1 < values.size() ? bf16_bits(values[2 * i + 1]) : 0;
    const std::uint32_t pair = bf16_bits(values[2 * i]) | high << 16;
    std::memcpy(&packed[i], &pair, sizeof pair);
  }
}
void unpack_bf16(ConstFloats packed, Floats values) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::uint32_t pair;
    std::memcpy(&pair, &packed[i], sizeof pair);
    values[2 * i] = float_of(pair & 0xffffu);
    if (2 * i + 1 < values.size()) values[2 * i + 1] = float_of(pair >> 16);
  }
}
}  // namespace thinwire::kernels
