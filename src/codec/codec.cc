#include "src/codec/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "src/codec/bytes.h"
#include "src/codec/dense.h"
#include "src/codec/picks.h"

namespace thinwire {
namespace {

// The first byte of a payload.
constexpr unsigned kWidthMask = 0x07;  // value_bits = 2^width, width <= 5
constexpr unsigned kHasPicks = 0x08;
constexpr unsigned kHasScales = 0x10;
constexpr unsigned kHasDense = 0x20;
constexpr unsigned kDenseCompressed = 0x40;
constexpr unsigned kFewerDense = 0x80;  // than the shard has floats: their number is given
constexpr unsigned kWidthMax = 5;

bool all_finite(ConstFloats values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

void check_tile(std::span<const std::uint16_t> positions, std::uint32_t coefficients) {
  for (std::size_t i = 1; i < positions.size(); ++i) TW_CHECK(positions[i - 1] < positions[i]);
  TW_CHECK(positions.empty() || positions.back() < coefficients);
}

void check_picks(const Picks& picks, TileSizes tiles) {
  const auto width = static_cast<unsigned>(picks.value_bits);
  TW_CHECK(std::has_single_bit(width) && width <= 32);
  TW_CHECK(picks.counts.empty() || picks.counts.size() == tiles.size());
  std::size_t begin = 0;
  std::size_t spoken = 0;
  for (std::size_t t = 0; t < picks.counts.size(); ++t) {
    const std::size_t count = picks.counts[t];
    TW_CHECK(count <= picks.positions.size() - begin);
    check_tile(std::span(picks.positions).subspan(begin, count), tiles[t]);
    begin += count;
    spoken += count > 0;
  }
  TW_CHECK(picks.positions.size() == begin);
  TW_CHECK(picks.codes.size() == begin);
  std::uint32_t used = 0;
  for (std::uint32_t code : picks.codes) used |= code;
  TW_CHECK(std::bit_width(used) <= width);
  TW_CHECK(picks.scales.empty() || picks.scales.size() == spoken);
  TW_CHECK(all_finite(picks.scales));
}

void check_shape(const Shape& shape) {
  for (std::uint32_t tile : shape.tile_coefficients) TW_CHECK(tile <= kTileCoefficientsMax);
}

Result<Update> decode_sections(Reader& bytes, const Shape& shape, unsigned form) {
  using Decoded = Result<Update>;
  Update update;
  update.picks.value_bits = 1 << (form & kWidthMask);
  if (form & kHasDense) {
    if (shape.floats == 0) return Decoded::refuse("dense values for a shard without floats");
    std::uint64_t count = shape.floats;
    if (form & kFewerDense) {
      if (!bytes.take(count)) return Decoded::refuse("ends within its dense values");
      if (count == 0 || count >= shape.floats)
        return Decoded::refuse("a number of dense values that is not below that of floats");
    }
    auto dense = take_dense(bytes, static_cast<std::size_t>(count), (form & kDenseCompressed) != 0);
    if (!dense) return Decoded::refuse(dense.why());
    update.dense = std::move(*dense);
  }
  if (form & kHasPicks) {
    auto picks =
        take_picks(bytes, shape.tile_coefficients,
                   {.value_bits = update.picks.value_bits, .scales = (form & kHasScales) != 0});
    if (!picks) return Decoded::refuse(picks.why());
    update.picks = std::move(*picks);
  }
  if (bytes.left() > 0) return Decoded::refuse("bytes after the end of the update");
  return update;
}

}  // namespace

Bytes encode(const Update& update, const Shape& shape) {
  check_shape(shape);
  check_picks(update.picks, shape.tile_coefficients);
  TW_CHECK(update.dense.size() <= shape.floats);

  auto form =
      static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(update.picks.value_bits)));
  Bytes out(1);
  if (!update.dense.empty()) {
    form |= kHasDense;
    if (update.dense.size() < shape.floats) {
      form |= kFewerDense;
      put_le(out, std::uint64_t{update.dense.size()});
    }
    if (append_dense(out, update.dense)) form |= kDenseCompressed;
  }
  if (!update.picks.counts.empty()) {
    form |= kHasPicks;
    if (!update.picks.scales.empty()) form |= kHasScales;
    append_picks(out, update.picks, shape.tile_coefficients);
  }
  out[0] = static_cast<std::byte>(form);
  return out;
}

Result<Update> decode(ByteView bytes, const Shape& shape) {
  using Decoded = Result<Update>;
  check_shape(shape);
  Reader reader(bytes);
  std::uint8_t form = 0;
  if (!reader.take(form)) return Decoded::refuse("no bytes: even an empty update has one");
  if ((form & kWidthMask) > kWidthMax ||
      ((form & (kDenseCompressed | kFewerDense)) && !(form & kHasDense)) ||
      ((form & kHasScales) && !(form & kHasPicks)))
    return Decoded::refuse("unknown form of update");
  return decode_sections(reader, shape, form);
}

bool finite_floats(const Update& update) {
  if (!all_finite(update.dense) || !all_finite(update.picks.scales)) return false;
  const auto& codes = update.picks.codes;
  return update.picks.value_bits < 32 ||
         std::all_of(codes.begin(), codes.end(),
                     [](std::uint32_t c) { return std::isfinite(float_of(c)); });
}

}  // namespace thinwire
