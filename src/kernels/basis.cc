#include "src/kernels/basis.h"

#include <array>
#include <bit>
#include <cmath>

#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

constexpr double kHalfPi = 1.57079632679489661923;

// Taylor series, |x| <= pi/4: the first term left out is below 2^-58 of the result.
double cos_series(double x) {
  const double y = x * x;
  double sum = 0.0;
  for (int k = 16; k > 0; k -= 2) sum = (1.0 - sum) * y / (k * (k - 1));
  return 1.0 - sum;
}

double sin_series(double x) {
  const double y = x * x;
  double sum = 0.0;
  for (int k = 17; k > 1; k -= 2) sum = (1.0 - sum) * y / (k * (k - 1));
  return x * (1.0 - sum);
}

// cos(2 pi m / 4n): folded into the first octant with integers, so that mirrored entries of the
// basis are equal but for the sign.
double cos_of_quarters(std::size_t m, std::size_t n) {
  m %= 4 * n;
  if (m > 2 * n) m = 4 * n - m;
  if (m > n) return -cos_of_quarters(2 * n - m, n);
  if (m == n) return 0.0;
  const double quarter = kHalfPi / static_cast<double>(n);
  if (2 * m > n) return sin_series(quarter * static_cast<double>(n - m));
  return cos_series(quarter * static_cast<double>(m));
}

double norm(std::size_t n, std::size_t u) {
  return std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(n));
}

// To nearest, halves away from zero: mirrored entries stay equal but for the sign.
std::int32_t to_votes(double value) {
  const double scaled = value * (1 << kVoteBasisBits);
  return static_cast<std::int32_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

// cos(pi (2i+1) u / 2 length) for every input i < half or length and its outputs u = first, first +
// step, ...: as many as inputs. The factors of neighbouring outputs are neighbours, or, turned,
// those of neighbouring inputs.
struct Products {
  std::size_t length = 0;
  std::size_t inputs = 0;
  std::size_t first = 0;
  std::size_t step = 1;
  bool turned = false;
};

void add_products(Products p, double norm, double norm_of_zero, std::vector<float>& factors) {
  for (std::size_t row = 0; row < p.inputs; ++row) {
    for (std::size_t column = 0; column < p.inputs; ++column) {
      const std::size_t i = p.turned ? column : row;
      const std::size_t u = p.first + p.step * (p.turned ? row : column);
      const double cosine = cos_of_quarters((2 * i + 1) * u, p.length);
      factors.push_back(static_cast<float>((u == 0 ? norm_of_zero : norm) * cosine));
    }
  }
}

struct Norms {
  double all = 0.0;
  double zero = 0.0;  // of coefficient 0
};

// Mirrors columns-inl.h. All factors carry the norm of the whole transform.
void add_factors(std::size_t length, Norms norms, bool turned, std::vector<float>& factors) {
  if (is_dense(length)) {
    add_products({.length = length, .inputs = length, .turned = turned}, norms.all, norms.zero,
                 factors);
    return;
  }
  if (splits(length)) {
    for (std::size_t angle = 1; angle < length / 2; angle += 2) {  // pi angle / 2 length
      factors.push_back(static_cast<float>(cos_of_quarters(angle, length)));
      factors.push_back(static_cast<float>(cos_of_quarters(length - angle, length)));
    }
    add_factors(length / 4, {norms.all, norms.all}, turned, factors);
    add_factors(length / 4, {norms.all, -norms.all}, turned, factors);
  } else {
    add_products({.length = length, .inputs = length / 2, .first = 1, .step = 2, .turned = turned},
                 norms.all, norms.all, factors);
  }
  add_factors(length / 2, norms, turned, factors);
}

double entry(Basis basis, std::size_t n, std::size_t u, std::size_t i) {
  switch (basis) {
    case Basis::dct:
      return norm(n, u) * cos_of_quarters((2 * i + 1) * u, n);
    case Basis::hadamard:
      return (std::popcount(u & i) % 2 == 0 ? 1.0 : -1.0) * norm(n, 0);
    case Basis::none:
      return u == i ? 1.0 : 0.0;
  }
  throw Error("no such basis; use dct, hadamard or none");
}

Side make_side(Basis basis, std::size_t n) {
  Side made{.basis = basis,
            .length = n,
            .rows = std::vector<float>(n * kSideMax),
            .votes = std::vector<std::int32_t>(n * kSideMax),
            .forward = {},
            .backward = {}};
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t i = 0; i < n; ++i) {
      const double value = entry(basis, n, u, i);
      made.rows[u * kSideMax + i] = static_cast<float>(value);
      made.votes[u * kSideMax + i] = to_votes(value);
    }
  }
  if (basis == Basis::dct) {
    const Norms norms{.all = norm(n, 1), .zero = norm(n, 0)};
    add_factors(n, norms, false, made.forward);
    add_factors(n, norms, true, made.backward);
  }
  return made;
}

// Made when first asked for; nothing for a length that the basis does not have.
template <Basis kBasis>
const Side& from_table(std::size_t length) {
  static const auto all = [] {
    std::array<Side, kSideMax> sides;
    for (std::size_t n = 1; n <= kSideMax; ++n) {
      if (kBasis != Basis::hadamard || std::has_single_bit(n)) sides[n - 1] = make_side(kBasis, n);
    }
    return sides;
  }();
  return all[length - 1];
}

}  // namespace

const Side& side(Basis basis, std::size_t length) {
  if (length < 1 || length > kSideMax) throw Error("a tile side must be 1 to 64 long");
  if (basis == Basis::none) return from_table<Basis::none>(length);
  if (basis == Basis::hadamard && std::has_single_bit(length)) {
    return from_table<Basis::hadamard>(length);
  }
  return from_table<Basis::dct>(length);
}

}  // namespace thinwire::kernels
