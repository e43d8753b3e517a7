// The tables of the tile transforms, for every basis and length 1 .. 64, made once by basic
// arithmetic alone: no libm call but sqrt, so every machine has the same bits (docs/numerics.md).
// Immutable once made, safe from any thread. For src/kernels only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/kernels.h"

namespace thinwire::kernels {

inline constexpr std::size_t kSideMax = 64;
inline constexpr int kVoteBasisBits = 14;  // Q14

// One side of a tile in its basis B:
//   dct       a_u cos(pi (2i+1) u / 2n), a_0 = sqrt(1/n), otherwise a_u = sqrt(2/n);
//   hadamard  (-1)^(bits that u and i share) / sqrt(n);
//   none      1 where u = i.
struct Side {
  Basis basis = Basis::dct;         // never hadamard unless n is a power of two
  std::size_t length = 0;           // n
  std::vector<float> rows;          // B[u][i] at u * kSideMax + i, zeros from i = n on
  std::vector<std::int32_t> votes;  // the same in Q14
  std::vector<float> forward;   // dct: factors of the forward transform, in its recursion's order
  std::vector<float> backward;  // the same for its transpose: products are turned
};

// The forward DCT halves a length again and again. Sums of mirrored inputs give the even
// coefficients, as a transform of half the length. Differences give the odd ones: by a dense
// product, or, when it pays (splits), by rotations and two transforms of a quarter of the length.
// What is short or odd is a dense product.
constexpr bool is_dense(std::size_t length) { return length <= 4 || length % 2 == 1; }
constexpr bool splits(std::size_t length) { return length >= 32 && length % 4 == 0; }

// With hadamard, a length that is no power of two gets the DCT. Throws Error unless 1 <= length <=
// kSideMax.
const Side& side(Basis basis, std::size_t length);

}  // namespace thinwire::kernels
