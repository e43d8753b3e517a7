#include "src/core/near_math.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace thinwire {
namespace {

std::uint32_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;  // a quiet NaN
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

float float_of(std::uint32_t bf16) { return std::bit_cast<float>(bf16 << 16); }

// Two values ride in the place of one float; nobody does arithmetic on it.
constexpr std::size_t packed_size(std::size_t floats) { return (floats + 1) / 2; }

void pack(ConstFloats values, Floats packed) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::uint32_t high = 2 * i + 1 < values.size() ? bf16_bits(values[2 * i + 1]) : 0;
    const std::uint32_t pair = bf16_bits(values[2 * i]) | high << 16;
    std::memcpy(&packed[i], &pair, sizeof pair);
  }
}

void unpack(ConstFloats packed, Floats values) {
  for (std::size_t i = 0; i < packed.size(); ++i) {
    std::uint32_t pair;
    std::memcpy(&pair, &packed[i], sizeof pair);
    values[2 * i] = float_of(pair & 0xffffu);
    if (2 * i + 1 < values.size()) values[2 * i + 1] = float_of(pair >> 16);
  }
}

// Where the packed parts of a unit lie: each begins with a float of its own.
std::vector<std::size_t> packed_cuts(Cuts cuts) {
  std::vector<std::size_t> packed{0};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    packed.push_back(packed.back() + packed_size(cuts[i + 1] - cuts[i]));
  }
  return packed;
}

Floats part_of(Floats whole, Cuts cuts, int rank) {
  return whole.subspan(cuts[rank], cuts[rank + 1] - cuts[rank]);
}

}  // namespace

void round_to_bf16(Floats x) {
  for (float& value : x) value = float_of(bf16_bits(value));
}

void gather_unit(Collective& near, ConstFloats mine, Floats whole, Cuts cuts, NearType type) {
  if (near.size() == 1) {
    std::copy(mine.begin(), mine.end(), whole.begin());
    if (type == NearType::bf16) round_to_bf16(whole);
    return;
  }
  if (type == NearType::fp32) return near.all_gather(mine, whole, cuts);
  const std::vector<std::size_t> packed = packed_cuts(cuts);
  std::vector<float> all(packed.back());
  const Floats own = part_of(all, packed, near.rank());
  pack(mine, own);
  near.all_gather(own, all, packed);
  for (int rank = 0; rank < near.size(); ++rank) {
    unpack(part_of(all, packed, rank), part_of(whole, cuts, rank));
  }
}

void reduce_unit(Collective& near, Floats whole, Floats mine, Cuts cuts, NearType type) {
  if (near.size() == 1) {
    if (mine.data() != whole.data()) std::copy(whole.begin(), whole.end(), mine.begin());
    if (type == NearType::bf16) round_to_bf16(mine);
    return;
  }
  if (type == NearType::fp32) return near.reduce_scatter_mean(whole, mine, cuts);
  const std::vector<std::size_t> packed = packed_cuts(cuts);
  std::vector<float> sent(packed.back());
  for (int rank = 0; rank < near.size(); ++rank) {
    pack(part_of(whole, cuts, rank), part_of(sent, packed, rank));
  }
  const std::size_t length = packed_size(mine.size());
  std::vector<float> heard(length * near.size());
  near.all_to_all(sent, heard, packed);
  std::vector<float> values(mine.size());
  for (int rank = 0; rank < near.size(); ++rank) {
    unpack(ConstFloats(heard).subspan(length * rank, length), values);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = rank == 0 ? values[i] : mine[i] + values[i];
    }
  }
  const float count = static_cast<float>(near.size());
  for (float& value : mine) value /= count;
}

void all_reduce_unit(Collective& near, Floats whole, NearType type) {
  if (type == NearType::fp32) {
    if (near.size() > 1) near.all_reduce_mean(whole);
    return;
  }
  std::vector<std::size_t> cuts;
  for (int rank = 0; rank <= near.size(); ++rank) cuts.push_back(whole.size() * rank / near.size());
  const Floats mine = part_of(whole, cuts, near.rank());
  reduce_unit(near, whole, mine, cuts, type);
  if (near.size() > 1) near.all_gather(mine, whole, cuts);
}

}  // namespace thinwire
