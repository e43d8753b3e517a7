// Top-k by magnitude in two vector scans. The first takes the largest magnitude of each of 64
// interleaved groups: k of those are k different coefficients, so the k-th largest of them is a
// bound that the k-th largest coefficient reaches. The second keeps what reaches the bound, few
// more than k; only those are put in order. A magnitude is compared by its bits, which order as the
// floats do.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/top_k.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "thinwire/error.h"
#include "thinwire/kernels.h"

#ifndef THINWIRE_KERNELS_TOP_K_ONCE
#define THINWIRE_KERNELS_TOP_K_ONCE
namespace thinwire::kernels {

constexpr std::size_t kGroups = 64;
constexpr std::size_t kTopKMax = 4096;
constexpr std::size_t kStoreMargin = 64;  // a compressed store writes a whole vector

}  // namespace thinwire::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::CappedTag<std::int32_t, kGroups / 4>;

// Bits of |x|; below 2^31, hence ordered as signed integers too.
HWY_INLINE hn::Vec<Words> magnitude(const float* x) {
  const Words d;
  const hn::RebindToFloat<Words> floats;
  return hn::BitCast(d, hn::Abs(hn::LoadU(floats, x)));
}

// maxima[g] = the largest magnitude among x[g], x[g + 64], ...; count is a multiple of 64.
void GroupMaxima(const float* HWY_RESTRICT x, std::size_t count,
                 std::int32_t* HWY_RESTRICT maxima) {
  const Words d;
  const std::size_t n = hn::Lanes(d);
  for (std::size_t group = 0; group < kGroups; group += 4 * n) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (std::size_t i = group; i < count; i += kGroups) {
      a = hn::Max(a, magnitude(x + i));
      b = hn::Max(b, magnitude(x + i + n));
      c = hn::Max(c, magnitude(x + i + 2 * n));
      e = hn::Max(e, magnitude(x + i + 3 * n));
    }
    hn::StoreU(a, d, maxima + group);
    hn::StoreU(b, d, maxima + group + n);
    hn::StoreU(c, d, maxima + group + 2 * n);
    hn::StoreU(e, d, maxima + group + 3 * n);
  }
}

HWY_INLINE std::size_t keep_reaching(const float* x, std::size_t begin, hn::Vec<Words> bound,
                                     std::int32_t* kept) {
  const Words d;
  const auto below = hn::Gt(bound, magnitude(x + begin));
  return hn::CompressStore(hn::Iota(d, static_cast<std::int32_t>(begin)), hn::Not(below), d, kept);
}

// Positions of magnitudes >= bound, ascending; count is a multiple of 64. Returns how many. `kept`
// has room for count + kStoreMargin.
std::size_t Reaching(const float* HWY_RESTRICT x, std::size_t count, std::int32_t bound,
                     std::int32_t* HWY_RESTRICT kept) {
  const Words d;
  const std::size_t n = hn::Lanes(d);
  const auto least = hn::Set(d, bound);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += 4 * n) {
    const auto largest = hn::Max(hn::Max(magnitude(x + i), magnitude(x + i + n)),
                                 hn::Max(magnitude(x + i + 2 * n), magnitude(x + i + 3 * n)));
    if (hn::AllTrue(d, hn::Gt(least, largest))) continue;
    for (std::size_t j = i; j < i + 4 * n; j += n)
      found += keep_reaching(x, j, least, kept + found);
  }
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernels {
namespace {

HWY_EXPORT(GroupMaxima);
HWY_EXPORT(Reaching);

// A magnitude that at least k coefficients reach, and no zero does.
std::int32_t bound_for(std::size_t k, const float* x, std::size_t count) {
  if (k > kGroups) return 1;
  std::array<std::int32_t, kGroups> maxima;
  HWY_DYNAMIC_DISPATCH(GroupMaxima)(x, count, maxima.data());
  std::nth_element(maxima.begin(), maxima.begin() + (k - 1), maxima.end(), std::greater<>());
  return std::max(maxima[k - 1], 1);
}

// Of positions in ascending order, those of the k largest keys, in ascending order. A key orders by
// magnitude, then the lower position first; no two are equal.
void select(const float* x, std::span<const std::int32_t> kept, std::size_t k,
            std::uint16_t* positions) {
  std::array<std::uint64_t, kTopKMax> keys;
  std::array<std::uint64_t, kTopKMax> order;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::uint64_t magnitude = std::bit_cast<std::uint32_t>(x[kept[i]]) & 0x7fffffffu;
    keys[i] = magnitude << 32 | (kTopKMax - static_cast<std::uint64_t>(kept[i]));
    order[i] = keys[i];
  }
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(order.begin(), last, order.begin() + static_cast<std::ptrdiff_t>(kept.size()),
                   std::greater<>());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (keys[i] >= *last) *positions++ = static_cast<std::uint16_t>(kept[i]);
  }
}

}  // namespace

std::size_t top_k(ConstFloats coefficients, std::size_t k, std::uint16_t* positions) {
  TW_CHECK(coefficients.on_host() && coefficients.size() <= kTopKMax);
  if (k == 0 || coefficients.empty()) return 0;
  const float* x = coefficients.data();
  std::size_t count = coefficients.size();
  std::array<float, kTopKMax> padded;
  if (count % kGroups != 0) {
    std::copy_n(x, count, padded.begin());
    const std::size_t whole = (count + kGroups - 1) / kGroups * kGroups;
    std::fill(padded.begin() + count, padded.begin() + whole, 0.0f);
    x = padded.data();
    count = whole;
  }
  std::array<std::int32_t, kTopKMax + kStoreMargin> kept;
  const std::size_t found =
      HWY_DYNAMIC_DISPATCH(Reaching)(x, count, bound_for(k, x, count), kept.data());
  const std::size_t taken = std::min(k, found);
  if (taken > 0) select(x, {kept.data(), found}, taken, positions);
  return taken;
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
