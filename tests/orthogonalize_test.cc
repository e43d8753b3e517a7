// Newton-Schulz: a nearly orthogonal result for any shape, one rounding per operation, and equal
// bits on every SIMD target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/targets.h"
#include "tests/support/tiles.h"
#include "thinwire/kernels.h"

namespace thinwire {
namespace {

using testing_support::bits_of;
using testing_support::for_each_target;
using testing_support::normal_floats;

struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;  // row-major

  float operator()(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
};

Matrix random_matrix(std::size_t rows, std::size_t cols, unsigned seed) {
  return {.rows = rows, .cols = cols, .values = normal_floats(rows * cols, seed)};
}

Matrix transposed(const Matrix& x) {
  Matrix turned{.rows = x.cols, .cols = x.rows, .values = {}};
  for (std::size_t j = 0; j < x.cols; ++j)
    for (std::size_t i = 0; i < x.rows; ++i) turned.values.push_back(x(i, j));
  return turned;
}

Matrix orthogonalized(Matrix x, int iterations = 5) {
  kernels::orthogonalize(x.rows, x.cols, x.values, iterations);
  return x;
}

// Every product and sum rounded on its own, k ascending.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix made{.rows = a.rows, .cols = b.cols, .values = {}};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      volatile float sum = 0.0f;
      for (std::size_t k = 0; k < a.cols; ++k) {
        volatile float term = a(i, k) * b(k, j);
        sum = sum + term;
      }
      made.values.push_back(float{sum});
    }
  }
  return made;
}

// a * x + b * y
Matrix combined(float a, const Matrix& x, float b, const Matrix& y) {
  Matrix made = x;
  for (std::size_t i = 0; i < made.values.size(); ++i) {
    volatile float first = a * x.values[i];
    volatile float second = b * y.values[i];
    made.values[i] = first + second;
  }
  return made;
}

Matrix by_hand(const Matrix& given, int iterations) {
  const bool tall = given.rows > given.cols;
  Matrix x = tall ? transposed(given) : given;
  double squares = 0.0;  // in pieces of 4096 values
  for (std::size_t at = 0; at < given.values.size(); at += 4096) {
    const std::size_t size = std::min<std::size_t>(4096, given.values.size() - at);
    squares += kernels::sum_squares(ConstFloats(given.values).subspan(at, size));
  }
  const double norm = std::sqrt(squares);
  for (float& value : x.values) value /= static_cast<float>(norm + 1e-7);
  for (int i = 0; i < iterations; ++i) {
    const Matrix gram = product(x, transposed(x));
    const Matrix polynomial = combined(-4.7750f, gram, 2.0315f, product(gram, gram));
    x = combined(3.4445f, x, 1.0f, product(polynomial, x));
  }
  return tall ? transposed(x) : x;
}

using Rows = std::vector<std::vector<double>>;

// Turns rows p and q by an angle that makes them orthogonal. Returns the cosine between them.
double rotate(std::vector<double>& p, std::vector<double>& q) {
  double pp = 0.0, qq = 0.0, pq = 0.0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    pp += p[k] * p[k];
    qq += q[k] * q[k];
    pq += p[k] * q[k];
  }
  if (pq == 0.0) return 0.0;
  const double slope = (qq - pp) / (2 * pq);
  const double tangent = std::copysign(1.0, slope) / (std::abs(slope) + std::hypot(1.0, slope));
  const double cosine = 1 / std::hypot(1.0, tangent);
  for (std::size_t k = 0; k < p.size(); ++k) {
    const double old = p[k];
    p[k] = cosine * (old - tangent * q[k]);
    q[k] = cosine * (q[k] + tangent * old);
  }
  return std::abs(pq) / std::sqrt(pp * qq);
}

// By rotations of pairs of rows (one-sided Jacobi), ascending; of a matrix no taller than wide.
std::vector<double> singular_values(const Matrix& x) {
  Rows rows;
  for (std::size_t i = 0; i < x.rows; ++i)
    rows.emplace_back(x.values.begin() + static_cast<std::ptrdiff_t>(i * x.cols),
                      x.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * x.cols));
  for (double worst = 1.0; worst > 1e-9;) {
    worst = 0.0;
    for (std::size_t p = 0; p < rows.size(); ++p)
      for (std::size_t q = p + 1; q < rows.size(); ++q)
        worst = std::max(worst, rotate(rows[p], rows[q]));
  }
  std::vector<double> values;
  for (const auto& row : rows) {
    double square = 0.0;
    for (double value : row) square += value * value;
    values.push_back(std::sqrt(square));
  }
  std::sort(values.begin(), values.end());
  return values;
}

Rows orthonormal_rows(std::size_t count, std::size_t length, unsigned seed) {
  const auto random = normal_floats(count * length, seed);
  Rows rows;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> row(random.begin() + static_cast<std::ptrdiff_t>(i * length),
                            random.begin() + static_cast<std::ptrdiff_t>((i + 1) * length));
    for (int twice = 0; twice < 2; ++twice) {
      for (const auto& other : rows) {
        double dot = 0.0;
        for (std::size_t k = 0; k < length; ++k) dot += row[k] * other[k];
        for (std::size_t k = 0; k < length; ++k) row[k] -= dot * other[k];
      }
    }
    double square = 0.0;
    for (double value : row) square += value * value;
    for (double& value : row) value /= std::sqrt(square);
    rows.push_back(row);
  }
  return rows;
}

// U S V^T with m <= n and singular values from 1 down to 1 / condition, evenly in their logarithm.
Matrix conditioned(std::size_t m, std::size_t n, double condition, unsigned seed) {
  const Rows left = orthonormal_rows(m, m, seed);
  const Rows right = orthonormal_rows(m, n, seed + 1);
  std::vector<double> sum(m * n, 0.0);
  for (std::size_t k = 0; k < m; ++k) {
    const double part = m == 1 ? 0.0 : static_cast<double>(k) / static_cast<double>(m - 1);
    const double size = std::pow(condition, -part);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) sum[i * n + j] += size * left[k][i] * right[k][j];
  }
  return {.rows = m, .cols = n, .values = {sum.begin(), sum.end()}};
}

TEST(Orthogonalize, RoundsEveryOperationInAscendingOrderOnEveryTarget) {
  const std::pair<std::size_t, std::size_t> sizes[] = {{1, 1},   {1, 50},  {50, 1},  {2, 3},
                                                       {13, 17}, {31, 37}, {37, 31}, {32, 64},
                                                       {64, 64}, {67, 33}, {96, 40}};
  for (const auto& [rows, cols] : sizes) {
    const Matrix x = random_matrix(rows, cols, 1);
    const auto expected = bits_of(by_hand(x, 5).values);
    for_each_target([&](const std::string& target) {
      EXPECT_EQ(bits_of(orthogonalized(x).values), expected)
          << target << " " << x.rows << " x " << x.cols;
    });
  }
}

// Long sums, of more terms than a cache or a register block holds.
TEST(Orthogonalize, RoundsEveryOperationInLongSums) {
  const Matrix x = random_matrix(40, 1500, 2);
  const auto expected = bits_of(by_hand(x, 1).values);
  for_each_target([&](const std::string& target) {
    EXPECT_EQ(bits_of(orthogonalized(x, 1).values), expected) << target;
  });
}

TEST(Orthogonalize, BringsSingularValuesNearOneUpToAConditionOf100) {
  const std::pair<std::size_t, std::size_t> sizes[] = {{1, 40},  {7, 7},   {16, 48},
                                                       {37, 41}, {64, 64}, {64, 192}};
  for (const auto& [rows, cols] : sizes) {
    for (double condition : {1.0, 10.0, 100.0}) {
      const Matrix x = conditioned(rows, cols, condition, 3);
      const auto before = singular_values(x);
      EXPECT_NEAR(before.back(), 1.0, 1e-4);
      const auto after = singular_values(orthogonalized(x));
      EXPECT_GE(after.front(), 0.6) << rows << " x " << cols << " " << condition;
      EXPECT_LE(after.back(), 1.3) << rows << " x " << cols << " " << condition;
    }
  }
}

// X = U S V^T becomes nearly U V^T: what it does to X is symmetric and positive.
TEST(Orthogonalize, KeepsTheSingularVectors) {
  const Matrix x = conditioned(24, 60, 20.0, 4);
  const Matrix made = product(orthogonalized(x), transposed(x));  // U f(S) S U^T
  double trace = 0.0;
  for (std::size_t i = 0; i < 24; ++i) {
    trace += made(i, i);
    for (std::size_t j = 0; j < 24; ++j) EXPECT_NEAR(made(i, j), made(j, i), 1e-5);
  }
  double sizes = 0.0;
  for (double size : singular_values(x)) sizes += size;
  EXPECT_GT(trace, 0.7 * sizes);
  EXPECT_LT(trace, 1.3 * sizes);
}

TEST(Orthogonalize, OfATallMatrixIsTheTransposeOfThatOfTheWideOne) {
  for (const auto& [rows, cols] : {std::pair{1, 40}, {13, 29}, {64, 100}}) {
    const Matrix wide = random_matrix(rows, cols, 5);
    const Matrix expected = transposed(orthogonalized(wide));
    const Matrix tall = orthogonalized(transposed(wide));
    // Their norms are summed in different orders.
    for (std::size_t i = 0; i < expected.values.size(); ++i)
      ASSERT_NEAR(tall.values[i], expected.values[i], 1e-6);
  }
}

TEST(Orthogonalize, LeavesZerosZero) {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 70}, {70, 3}}) {
    const Matrix zeros{.rows = static_cast<std::size_t>(rows),
                       .cols = static_cast<std::size_t>(cols),
                       .values = std::vector<float>(static_cast<std::size_t>(rows * cols), 0.0f)};
    EXPECT_EQ(orthogonalized(zeros).values, zeros.values);
  }
  EXPECT_TRUE(orthogonalized({.rows = 0, .cols = 5, .values = {}}).values.empty());
  EXPECT_TRUE(orthogonalized({.rows = 5, .cols = 0, .values = {}}).values.empty());
}

TEST(Orthogonalize, KeepsZeroRowsAndColumnsZero) {
  Matrix x = random_matrix(20, 30, 6);
  for (std::size_t k = 0; k < 30; ++k) x.values[7 * 30 + k] = 0.0f;
  for (std::size_t k = 0; k < 20; ++k) x.values[k * 30 + 11] = 0.0f;
  const Matrix made = orthogonalized(x);
  for (std::size_t k = 0; k < 30; ++k) EXPECT_EQ(made(7, k), 0.0f);
  for (std::size_t k = 0; k < 20; ++k) EXPECT_EQ(made(k, 11), 0.0f);
}

TEST(Orthogonalize, DoesNotSeeAPowerOfTwo) {
  const Matrix x = random_matrix(33, 70, 7);
  const auto expected = bits_of(orthogonalized(x).values);
  for (int power : {1, 5, 40, 100}) {
    Matrix scaled = x;
    for (float& value : scaled.values) value = std::ldexp(value, power);
    EXPECT_EQ(bits_of(orthogonalized(scaled).values), expected) << power;
  }
}

TEST(Orthogonalize, OfNoIterationIsADivisionByTheNorm) {
  const Matrix made = orthogonalized({.rows = 1, .cols = 2, .values = {3.0f, -4.0f}}, 0);
  EXPECT_NEAR(made.values[0], 0.6f, 1e-7);
  EXPECT_NEAR(made.values[1], -0.8f, 1e-7);
}

}  // namespace
}  // namespace thinwire
