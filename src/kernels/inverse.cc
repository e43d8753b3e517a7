// The inverse transforms, [replicated]: a row of the tile at a time over its set coefficients, then
// down the columns over the rows that have any. Multiplications and additions are rounded one by
// one and sums run in ascending order, so zeros may be left out and vectors be of any width without
// changing a bit. Votes are summed in integers (docs/numerics.md has the proof that 32 bits
// suffice).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/inverse.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "src/kernels/basis.h"
#include "src/kernels/combine-inl.h"
#include "src/kernels/extent.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"

#ifndef THINWIRE_KERNELS_INVERSE_ONCE
#define THINWIRE_KERNELS_INVERSE_ONCE
namespace thinwire::kernels {

constexpr int kVoteWeightBits = 12;  // Q12
constexpr int kVoteRowBits = 11;     // Q11, between the passes
constexpr int kVoteShift = kVoteWeightBits + kVoteBasisBits - kVoteRowBits;
constexpr std::int32_t kVoteRowMax = (1 << kVoteBasisBits) - 1;
constexpr int kAmplitudeShift = 8;  // Q25 to Q17

template <typename T>
struct SparseTile {
  std::span<const std::uint16_t> positions;
  std::span<const T> values;
  const T* down = nullptr;    // basis rows of the height
  const T* across = nullptr;  // and of the width
  std::size_t width = 0;
  std::size_t used_rows = 0;  // what is wanted of the result
  std::size_t used_columns = 0;
};

template <typename T>
struct InverseScratch {
  alignas(64) T rows[kSideMax * kSideMax];     // row by row inverse of the rows with coefficients
  alignas(64) T factors[kSideMax * kSideMax];  // and the basis row that goes with each
  alignas(64) T result[kSideMax * kSideMax];
};

}  // namespace thinwire::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::kernels {
namespace HWY_NAMESPACE {

// sum += factor * term over a scratch row.
template <typename T>
HWY_INLINE void add_row(T factor, const T* HWY_RESTRICT term, std::size_t columns,
                        T* HWY_RESTRICT sum) {
  const Lanes<T> d;
  const auto f = hn::Set(d, factor);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    hn::StoreU(Plain()(f, hn::LoadU(d, term + c), hn::LoadU(d, sum + c)), d, sum + c);
  }
}

HWY_INLINE void narrow_row(float*, std::size_t) {}  // floats are kept as they are

// Q26 to Q11, to nearest, halves up; within what the second pass can sum in 32 bits, which only
// the Hadamard basis of 64 exceeds, by one.
HWY_INLINE void narrow_row(std::int32_t* row, std::size_t columns) {
  const Lanes<std::int32_t> d;
  const auto half = hn::Set(d, 1 << (kVoteShift - 1));
  const auto most = hn::Set(d, kVoteRowMax);
  const auto least = hn::Set(d, -kVoteRowMax);
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    const auto rounded = hn::ShiftRight<kVoteShift>(hn::Add(hn::LoadU(d, row + c), half));
    hn::StoreU(hn::Max(hn::Min(rounded, most), least), d, row + c);
  }
}

template <typename T>
HWY_INLINE void inverse_tile(const SparseTile<T>& tile, InverseScratch<T>& scratch) {
  std::size_t count = 0;
  const std::size_t set = tile.positions.size();
  for (std::size_t k = 0; k < set; ++count) {
    const std::size_t u = tile.positions[k] / tile.width;
    T* row = scratch.rows + count * kSideMax;
    std::fill_n(row, kSideMax, T{0});
    for (; k < set && tile.positions[k] < (u + 1) * tile.width; ++k) {
      const std::size_t v = tile.positions[k] - u * tile.width;
      add_row(tile.values[k], tile.across + v * kSideMax, tile.used_columns, row);
    }
    narrow_row(row, tile.used_columns);
    std::copy_n(tile.down + u * kSideMax, kSideMax, scratch.factors + count * kSideMax);
  }
  combine<Plain>(Combination<T>{.count = count,
                                .factors = scratch.factors,
                                .factors_step = kSideMax,
                                .terms = scratch.rows,
                                .terms_step = kSideMax,
                                .outputs = tile.used_rows,
                                .sums = scratch.result,
                                .sums_step = kSideMax,
                                .columns = tile.used_columns});
}

void InverseFloats(const SparseTile<float>& tile, InverseScratch<float>& scratch) {
  inverse_tile(tile, scratch);
}

void InverseVotes(const SparseTile<std::int32_t>& tile, InverseScratch<std::int32_t>& scratch) {
  inverse_tile(tile, scratch);
}

void Signs(const std::int32_t* HWY_RESTRICT in, std::size_t count, float* HWY_RESTRICT out) {
  const Lanes<std::int32_t> d;
  const Lanes<float> floats;
  const auto one = hn::Set(d, 1);
  const auto minus_one = hn::Set(d, -1);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto sign = hn::Max(hn::Min(hn::LoadU(d, in + i), one), minus_one);
    hn::StoreU(hn::ConvertTo(floats, sign), floats, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>((in[i] > 0) - (in[i] < 0));
}

// Q25 to Q17, to nearest, halves up. Returns the sum of the squares. Integers, whose sum has no
// order: left to the compiler.
std::uint64_t Amplitudes(const std::int32_t* HWY_RESTRICT in, std::size_t count,
                         float* HWY_RESTRICT out) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t rounded = (in[i] + (1 << (kAmplitudeShift - 1))) >> kAmplitudeShift;
    out[i] = static_cast<float>(rounded);
    sum += static_cast<std::int64_t>(rounded) * rounded;
  }
  return static_cast<std::uint64_t>(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace thinwire::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::kernels {
namespace {

HWY_EXPORT(InverseFloats);
HWY_EXPORT(InverseVotes);
HWY_EXPORT(Signs);
HWY_EXPORT(Amplitudes);

void check(const Tile& tile, std::span<const std::uint16_t> positions, std::size_t values,
           std::size_t size) {
  TW_CHECK(positions.size() == values);
  TW_CHECK(positions.empty() || positions.back() < tile.height * tile.width);
  check_extent(tile, size);
}

template <typename T>
SparseTile<T> sparse_tile(const Tile& tile, std::span<const std::uint16_t> positions,
                          std::span<const T> values, const T* down, const T* across) {
  return {.positions = positions,
          .values = values,
          .down = down,
          .across = across,
          .width = tile.width,
          .used_rows = used_rows(tile),
          .used_columns = tile.cols};
}

// store(from, count, to) for each row of valid values.
template <typename T, class Store>
void store_rows(const Tile& tile, const T* result, Floats direction, const Store& store) {
  float* to = direction.data() + tile.offset;
  for (std::size_t i = 0; i < tile.rows; ++i) {
    store(result + i * kSideMax, tile.cols, to + i * tile.stride);
  }
  if (tile.tail > 0) store(result + tile.rows * kSideMax, tile.tail, to + tile.rows * tile.stride);
}

// The integer sums of inverse_votes, Q25.
void sum_votes(const Tile& tile, std::span<const std::uint16_t> positions,
               std::span<const std::int32_t> weights, Basis basis,
               InverseScratch<std::int32_t>& scratch) {
  constexpr std::int32_t kOne = 1 << kVoteWeightBits;
  TW_CHECK(std::all_of(weights.begin(), weights.end(),
                       [](std::int32_t w) { return -kOne <= w && w <= kOne; }));
  HWY_DYNAMIC_DISPATCH(InverseVotes)
  (sparse_tile(tile, positions, weights, side(basis, tile.height).votes.data(),
               side(basis, tile.width).votes.data()),
   scratch);
}

}  // namespace

void inverse_sparse(const Tile& tile, Sparse coefficients, Floats direction, Basis basis) {
  check_on_host(coefficients.values, direction);
  check(tile, coefficients.positions, coefficients.values.size(), direction.size());
  InverseScratch<float> scratch;
  HWY_DYNAMIC_DISPATCH(InverseFloats)
  (sparse_tile(tile, coefficients.positions, coefficients.values,
               side(basis, tile.height).rows.data(), side(basis, tile.width).rows.data()),
   scratch);
  store_rows(tile, scratch.result, direction, [](const float* from, std::size_t count, float* to) {
    std::memcpy(to, from, count * sizeof(float));
  });
}

void inverse(std::size_t height, std::size_t width, ConstFloats in, Floats out, Basis basis) {
  check_on_host(in, out);
  TW_CHECK(height <= kSideMax && width <= kSideMax);
  TW_CHECK(in.size() == height * width && out.size() == height * width);
  std::uint16_t positions[kSideMax * kSideMax];
  float values[kSideMax * kSideMax];
  std::size_t set = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i] == 0.0f) continue;
    positions[set] = static_cast<std::uint16_t>(i);
    values[set++] = in[i];
  }
  const Tile tile{.offset = 0,
                  .stride = width,
                  .rows = height,
                  .cols = width,
                  .tail = 0,
                  .height = height,
                  .width = width,
                  .coefficients = 0};
  inverse_sparse(tile, {.positions = {positions, set}, .values = {values, set}}, out, basis);
}

void inverse_votes(const Tile& tile, std::span<const std::uint16_t> positions,
                   std::span<const std::int32_t> weights, Floats direction, Basis basis) {
  check_on_host(direction);
  check(tile, positions, weights.size(), direction.size());
  InverseScratch<std::int32_t> scratch;
  sum_votes(tile, positions, weights, basis, scratch);
  store_rows(tile, scratch.result, direction,
             [](const std::int32_t* from, std::size_t count, float* to) {
               HWY_DYNAMIC_DISPATCH(Signs)(from, count, to);
             });
}

std::uint64_t inverse_votes_amplitude(const Tile& tile, std::span<const std::uint16_t> positions,
                                      std::span<const std::int32_t> weights, Floats out,
                                      Basis basis) {
  check_on_host(out);
  check(tile, positions, weights.size(), out.size());
  InverseScratch<std::int32_t> scratch;
  sum_votes(tile, positions, weights, basis, scratch);
  std::uint64_t squares = 0;
  store_rows(tile, scratch.result, out,
             [&squares](const std::int32_t* from, std::size_t count, float* to) {
               squares += HWY_DYNAMIC_DISPATCH(Amplitudes)(from, count, to);
             });
  return squares;
}

}  // namespace thinwire::kernels
#endif  // HWY_ONCE
