#include "src/kernels/basis.h"

#include <array>
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

double entry(std::size_t n, std::size_t u, std::size_t i) {
  const double length = static_cast<double>(n);
  if (u == 0) return std::sqrt(1.0 / length);
  return std::sqrt(2.0 / length) * cos_of_quarters((2 * i + 1) * u, n);
}

// To nearest, halves away from zero: mirrored entries stay equal but for the sign.
std::int32_t to_votes(double value) {
  const double scaled = value * (1 << kVoteBasisBits);
  return static_cast<std::int32_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

// While the length is even, sums and differences of mirrored inputs halve the work: differences
// give the odd rows, and the even rows are the transform of the sums. The rows of B cut to the
// shorter length are exactly the factors needed. Stored input by input, so that the factors of
// neighbouring outputs are neighbours: for each halving [half inputs][half outputs], then the odd
// rest squared.
std::vector<float> forward_factors(std::size_t n, const std::vector<float>& rows) {
  std::vector<float> factors;
  std::size_t step = 1;
  std::size_t length = n;
  for (; length % 2 == 0; length /= 2, step *= 2) {
    for (std::size_t i = 0; i < length / 2; ++i)
      for (std::size_t u = step; u < n; u += 2 * step) factors.push_back(rows[u * kSideMax + i]);
  }
  for (std::size_t i = 0; i < length; ++i)
    for (std::size_t u = 0; u < n; u += step) factors.push_back(rows[u * kSideMax + i]);
  return factors;
}

Basis make_basis(std::size_t n) {
  Basis made{.length = n,
             .rows = std::vector<float>(n * kSideMax),
             .votes = std::vector<std::int32_t>(n * kSideMax),
             .forward = {}};
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t i = 0; i < n; ++i) {
      const double value = entry(n, u, i);
      made.rows[u * kSideMax + i] = static_cast<float>(value);
      made.votes[u * kSideMax + i] = to_votes(value);
    }
  }
  made.forward = forward_factors(n, made.rows);
  return made;
}

}  // namespace

const Basis& basis(std::size_t length) {
  static const auto all = [] {
    std::array<Basis, kSideMax> bases;
    for (std::size_t n = 1; n <= kSideMax; ++n) bases[n - 1] = make_basis(n);
    return bases;
  }();
  if (length < 1 || length > kSideMax) throw Error("a tile side must be 1 to 64 long");
  return all[length - 1];
}

}  // namespace thinwire::kernels
