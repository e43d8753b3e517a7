// The cosines of the tile transforms, for every length 1 .. 64, made once by basic arithmetic
// alone: no libm call, so every machine has the same bits (docs/numerics.md). Immutable once made,
// safe from any thread. For src/kernels only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thinwire::kernels {

inline constexpr std::size_t kSideMax = 64;
inline constexpr int kVoteBasisBits = 14;  // Q14

// B[u][i] = a_u cos(pi (2i+1) u / 2n), a_0 = sqrt(1/n), otherwise a_u = sqrt(2/n).
struct Basis {
  std::size_t length = 0;           // n
  std::vector<float> rows;          // B[u][i] at u * kSideMax + i, zeros from i = n on
  std::vector<std::int32_t> votes;  // the same in Q14
  std::vector<float> forward;       // the factors of the forward transform, see forward_factors
};

// Throws Error unless 1 <= length <= kSideMax.
const Basis& basis(std::size_t length);

}  // namespace thinwire::kernels
