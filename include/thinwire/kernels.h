// Arithmetic on spans of floats and on tiles. No names, no rounds, no bytes on a wire. All
// functions are pure or write only to their arguments and are safe to call from any thread.
//
// Marked [replicated]: the result is equal to the bit on every machine and SIMD width (no fused
// multiply-add, a fixed order of sums, or integer arithmetic); see docs/numerics.md.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire::kernels {

// y = a * y + b * x                                                                   [replicated]
void scale_add(Floats y, float a, ConstFloats x, float b);
// y *= a                                                                              [replicated]
void scale(Floats y, float a);
// y /= a                                                                              [replicated]
void divide(Floats y, float a);
// Sum of squares in double, in order of the elements, 8 interleaved partial sums      [replicated]
double sum_squares(ConstFloats x);
bool all_finite(ConstFloats x);

// x = keep * x - lr * sign(direction), sign(0) = 0                                    [replicated]
void sign_step(Floats x, float keep, float lr, ConstFloats direction);

// One AdamW step (Loshchilov & Hutter 2019, alg. 2) on gradient scale * g:            [replicated]
// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; x = keep x - rate * m / (sqrt(v) * v_scale + eps)
struct AdamwStep {
  float scale = 1.0f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float keep = 1.0f;     // 1 - lr * weight decay
  float rate = 1e-3f;    // lr / (1 - beta1^t)
  float v_scale = 1.0f;  // 1 / sqrt(1 - beta2^t)
  float eps = 1e-8f;
};
void adamw(Floats x, Floats m, Floats v, ConstFloats g, const AdamwStep& step);

// One step of Lion (Chen et al. 2023, alg. 2) on gradient scale * g:                   [replicated]
// x = keep x - lr sign(b1 m + (1-b1) g); m = b2 m + (1-b2) g
struct LionStep {
  float scale = 1.0f;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float keep = 1.0f;
  float lr = 1e-3f;
};
void lion(Floats x, Floats m, ConstFloats g, const LionStep& step);

// Replaces a row-major matrix by nearly its closest orthogonal one: singular values go to about 0.7
// .. 1.2, vectors stay (Newton-Schulz of Muon, Jordan et al. 2024). With X = M / (|M| + 1e-7), |M|
// its Frobenius norm, transposed if rows > cols, repeats A = X X^T, B = b A + c A A, X = a X + B X,
// a, b, c = 3.4445, -4.7750, 2.0315. All elements must be finite; zeros stay zeros. Takes 8 rows *
// cols + 8 min(rows, cols)^2 bytes of memory meanwhile.                               [replicated]
void orthogonalize(std::size_t rows, std::size_t cols, Floats matrix, int iterations = 5);

// ---- tiles, on the host alone: tile_kernels.h has what works on devices too
// -------------------------------------------------------------------------------------------

// The orthonormal basis of a tile's coefficients, separable, sides 1 .. 64. Of a side of n values:
//   dct       DCT-II: a_u cos(pi (2i+1) u / 2n), a_0 = sqrt(1/n), otherwise a_u = sqrt(2/n)
//   hadamard  Sylvester's +-1 / sqrt(n) if n is a power of two, otherwise the DCT
//   none      coefficients are the values themselves
enum class Basis { dct, hadamard, none };

// X[u,v] = sum_ij B[u,i] B'[v,j] x[i,j]: coefficients of one tile; `inverse` is the transpose.
// in and out hold height * width floats, row-major, and must not overlap. 64 x 64 is the fastest.
void transform(std::size_t height, std::size_t width, ConstFloats in, Floats out,
               Basis basis = Basis::dct);
void inverse(std::size_t height, std::size_t width, ConstFloats in, Floats out,  // [replicated]
             Basis basis = Basis::dct);
inline void dct(std::size_t height, std::size_t width, ConstFloats in, Floats out) {
  transform(height, width, in, out);
}
inline void inverse_dct(std::size_t height, std::size_t width, ConstFloats in, Floats out) {
  inverse(height, width, in, out);
}

// residual = decay * residual + scale * transform(tile of values), zeros where the tile is padded.
// `values` is the whole array that tile.offset points into; residual is exactly the tile's
// coefficients.
void fold(const Tile& tile, ConstFloats values, float decay, float scale, Floats residual,
          Basis basis = Basis::dct);

// values[tile's valid values] = inverse of its height * width coefficients, several times as fast
// as `inverse`, but not replicated: for what stays at a site.
void inverse_fast(const Tile& tile, ConstFloats coefficients, Floats values,
                  Basis basis = Basis::dct);

// The k largest |coefficients|: larger magnitude first, then lower index; written as ascending
// positions. Returns how many: min(k, number of coefficients that are not zero). All must be
// finite. Room for k positions is needed; at most 4096 coefficients.
std::size_t top_k(ConstFloats coefficients, std::size_t k, std::uint16_t* positions);

// A sum of coefficients of a tile over sites, for the inverse transform.
struct Sparse {
  std::span<const std::uint16_t> positions;  // strictly ascending
  ConstFloats values;
};

// direction[tile's valid values] = inverse of the sparse coefficients; values outside the tile
// are untouched. Costs less than a dense inverse when few are set. [replicated]
void inverse_sparse(const Tile& tile, Sparse coefficients, Floats direction,
                    Basis basis = Basis::dct);

// The same for 1-bit votes, in integers up to the sign: weights are signed Q12 fixed point, |w| <=
// 4096; direction gets -1, 0 or +1 at the tile's valid values (docs/numerics.md). [replicated]
void inverse_votes(const Tile& tile, std::span<const std::uint16_t> positions,
                   std::span<const std::int32_t> weights, Floats direction,
                   Basis basis = Basis::dct);
// The same with amplitudes: out gets whole numbers below 2^23 in magnitude, in units of 2^-17.
// Returns the exact sum of their squares, below 2^47 for a tile. [replicated]
std::uint64_t inverse_votes_amplitude(const Tile& tile, std::span<const std::uint16_t> positions,
                                      std::span<const std::int32_t> weights, Floats out,
                                      Basis basis = Basis::dct);

}  // namespace thinwire::kernels
