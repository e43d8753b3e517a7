#include "src/codec/picks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "src/codec/positions.h"

namespace thinwire {
namespace {

// How many were chosen in each tile, measured against the largest such number of the update. The
// models of a tile depend on what the tile before it was, for silence comes in runs.
struct CountModels {
  enum Kind { kNominal, kZero, kOther };
  BitModel nominal[3];
  BitModel zero[3];
  Kind before = kNominal;
};

void encode_count(RangeEncoder& coder, CountModels& models, std::uint32_t count,
                  std::uint32_t nominal) {
  const auto before = std::exchange(models.before, CountModels::kNominal);
  coder.encode_bit(models.nominal[before], count == nominal);
  if (count == nominal) return;
  models.before = count == 0 ? CountModels::kZero : CountModels::kOther;
  if (nominal == 1) return;
  coder.encode_bit(models.zero[before], count == 0);
  if (count != 0) coder.encode_uniform(count - 1, nominal - 1);
}

std::uint32_t decode_count(RangeDecoder& coder, CountModels& models, std::uint32_t nominal) {
  const auto before = std::exchange(models.before, CountModels::kNominal);
  if (coder.decode_bit(models.nominal[before])) return nominal;
  models.before = CountModels::kZero;
  if (nominal == 1 || coder.decode_bit(models.zero[before])) return 0;
  models.before = CountModels::kOther;
  return 1 + coder.decode_uniform(nominal - 1);
}

// Finds the node of a tile; neighbours mostly have the same size.
class Nodes {
 public:
  explicit Nodes(Splits& splits) : splits_(splits) {}
  Splits::Node& operator()(std::uint32_t n) {
    if (last_ == nullptr || last_->n != n) last_ = &splits_.node(n);
    return *last_;
  }

 private:
  Splits& splits_;
  Splits::Node* last_ = nullptr;
};

void encode_choice(Bytes& out, const Picks& picks, TileSizes tiles, std::uint16_t nominal) {
  RangeEncoder coder(out);
  CountModels models;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const std::uint32_t most = std::min<std::uint32_t>(nominal, tiles[t]);
    if (most > 0) encode_count(coder, models, picks.counts[t], most);
  }
  Splits splits;
  Nodes nodes(splits);
  std::span<const std::uint16_t> rest(picks.positions);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const std::uint16_t count = picks.counts[t];
    if (count == 0) continue;
    encode_positions(coder, splits, nodes(tiles[t]), rest.first(count));
    rest = rest.subspan(count);
  }
  coder.finish();
}

// Lowest bits first, without gaps; the unused bits of the last byte are zero.
void append_codes(Bytes& out, const Picks& picks) {
  std::uint64_t held = 0;
  int bits = 0;
  for (std::uint32_t code : picks.codes) {
    held |= std::uint64_t{code} << bits;
    for (bits += picks.value_bits; bits >= 8; bits -= 8, held >>= 8)
      out.push_back(static_cast<std::byte>(held));
  }
  if (bits > 0) out.push_back(static_cast<std::byte>(held));
}

// False if the unused bits of the last byte are not zero.
bool unpack_codes(ByteView bytes, Picks& picks, std::size_t count) {
  picks.codes.resize(count);
  const std::uint64_t mask = (std::uint64_t{1} << picks.value_bits) - 1;
  std::uint64_t held = 0;
  int bits = 0;
  auto next = bytes.begin();
  for (std::uint32_t& code : picks.codes) {
    for (; bits < picks.value_bits; bits += 8) held |= std::uint64_t(*next++) << bits;
    code = static_cast<std::uint32_t>(held & mask);
    held >>= picks.value_bits;
    bits -= picks.value_bits;
  }
  return held == 0;
}

struct Totals {
  std::size_t chosen = 0;
  std::size_t tiles = 0;  // with counts > 0
  std::uint16_t largest = 0;
};

Totals totals_of(const std::vector<std::uint16_t>& counts) {
  Totals totals;
  for (std::uint16_t count : counts) {
    totals.chosen += count;
    totals.tiles += count > 0;
    totals.largest = std::max(totals.largest, count);
  }
  return totals;
}

std::size_t code_bytes(std::size_t codes, int value_bits) {
  return (codes * static_cast<std::size_t>(value_bits) + 7) / 8;
}

bool take_codes(Reader& bytes, Picks& picks, std::size_t chosen) {
  ByteView codes;
  return bytes.take(code_bytes(chosen, picks.value_bits), codes) &&
         unpack_codes(codes, picks, chosen);
}

bool take_scales(Reader& bytes, Picks& picks, std::size_t count) {
  picks.scales.reserve(count);
  for (std::uint32_t bits = 0; picks.scales.size() < count && bytes.take(bits);)
    picks.scales.push_back(std::bit_cast<float>(bits));
  return picks.scales.size() == count && std::all_of(picks.scales.begin(), picks.scales.end(),
                                                     [](float s) { return std::isfinite(s); });
}

// Fills counts and positions; says why not, or nothing.
const char* take_choice(Reader& bytes, TileSizes tiles, Picks& picks, std::uint16_t nominal) {
  RangeDecoder coder(bytes.rest());
  CountModels models;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const std::uint32_t most = std::min<std::uint32_t>(nominal, tiles[t]);
    if (most > 0) picks.counts[t] = static_cast<std::uint16_t>(decode_count(coder, models, most));
    if (coder.failed()) return "counts are damaged";
  }
  const Totals totals = totals_of(picks.counts);
  if (totals.largest != nominal) return "no tile has as many coefficients as announced";
  if (code_bytes(totals.chosen, picks.value_bits) > bytes.left())
    return "fewer bytes than its coefficients need";

  picks.positions.resize(totals.chosen);
  Splits splits;
  Nodes nodes(splits);
  std::span<std::uint16_t> rest(picks.positions);
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const std::uint16_t count = picks.counts[t];
    if (count == 0) continue;
    decode_positions(coder, splits, nodes(tiles[t]), rest.first(count));
    if (coder.failed()) return "positions are damaged";
    rest = rest.subspan(count);
  }
  if (!coder.exact()) return "positions are not coded in the one agreed way";
  ByteView used;
  bytes.take(coder.bytes_read(), used);
  return nullptr;
}

}  // namespace

void append_picks(Bytes& out, const Picks& picks, TileSizes tiles) {
  const std::uint16_t nominal = totals_of(picks.counts).largest;
  put_le(out, nominal);
  if (nominal == 0) return;
  encode_choice(out, picks, tiles, nominal);
  append_codes(out, picks);
  for (float scale : picks.scales) put_le(out, std::bit_cast<std::uint32_t>(scale));
}

Result<Picks> take_picks(Reader& bytes, TileSizes tiles, const PicksForm& form) {
  using Taken = Result<Picks>;
  Picks picks;
  picks.value_bits = form.value_bits;
  std::uint16_t nominal = 0;
  if (!bytes.take(nominal)) return Taken::refuse("ends before its coefficients");
  if (tiles.empty()) return Taken::refuse("coefficients for a shard without tiles");
  if (nominal > *std::max_element(tiles.begin(), tiles.end()))
    return Taken::refuse("more coefficients in a tile than it has");
  picks.counts.resize(tiles.size());
  if (nominal == 0) {
    if (form.scales) return Taken::refuse("scales without coefficients");
    return picks;
  }
  if (const char* why = take_choice(bytes, tiles, picks, nominal)) return Taken::refuse(why);
  const Totals totals = totals_of(picks.counts);
  if (!take_codes(bytes, picks, totals.chosen))
    return Taken::refuse("codes are damaged or missing");
  if (form.scales && !take_scales(bytes, picks, totals.tiles))
    return Taken::refuse("scales are missing or not finite");
  return picks;
}

}  // namespace thinwire
