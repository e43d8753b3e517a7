// Lion, Muon and Dion2 against plain arithmetic in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "optimizers/catalog.h"
#include "tests/support/random.h"

namespace thinwire::test {
namespace {

using Set = std::map<std::string, std::string>;

using Matrix = std::vector<double>;  // row-major

Matrix times(const Matrix& a, const Matrix& b, int n, int k, int m) {
  Matrix c(static_cast<std::size_t>(n) * m, 0.0);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) {
      for (int l = 0; l < k; ++l) c[i * m + j] += a[i * k + l] * b[l * m + j];
    }
  }
  return c;
}

Matrix transposed(const Matrix& a, int n, int m) {
  Matrix t(a.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) t[j * n + i] = a[i * m + j];
  }
  return t;
}

// Keller Jordan's iteration.
Matrix newton_schulz(Matrix x, int rows, int cols) {
  if (rows > cols)
    return transposed(newton_schulz(transposed(x, rows, cols), cols, rows), cols, rows);
  double norm = 0.0;
  for (const double value : x) norm += value * value;
  for (double& value : x) value /= std::sqrt(norm) + 1e-7;
  for (int round = 0; round < 5; ++round) {
    const Matrix a = times(x, transposed(x, rows, cols), rows, cols, rows);
    const Matrix aa = times(a, a, rows, rows, rows);
    Matrix b(a.size());
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const Matrix bx = times(b, x, rows, rows, cols);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  return x;
}

// Plays a rule on one hidden matrix; after each step `reference` is told the gradient and moves x.
void expect_rule(const std::string& name, const Set& settings, int rows, int cols,
                 const std::function<void(Matrix& x, const std::vector<float>& g)>& reference) {
  SCOPED_TRACE(name + " " + std::to_string(rows) + " x " + std::to_string(cols));
  const Layout layout({{"w", {static_cast<std::size_t>(rows), static_cast<std::size_t>(cols)}}});
  Settings of_method(name, settings);
  const auto optimizer = optimizer_catalog().make(name, of_method);
  Shard shard(layout, 0, 1, optimizer->traits().states, true);
  Matrix x(static_cast<std::size_t>(rows) * cols, 0.0);
  for (std::uint64_t index = 0; index < 8; ++index) {
    const Step step{.index = index, .lr = 0.01f, .norm = 1.0};
    const std::vector<float> g = noise_vector(index, x.size());
    const std::vector<Contribution> heard{{0, {.dense = g}}};
    optimizer->apply(step, shard, heard);
    reference(x, g);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(shard.params()[i], x[i], 1e-6) << index;
  }
}

TEST(Rules, LionIsTheSignOfAnInterpolation) {
  Matrix m(35, 0.0);
  expect_rule("lion", {{"clip", "0"}}, 5, 7, [&](Matrix& x, const std::vector<float>& g) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double u = 0.9 * m[i] + 0.1 * g[i];
      x[i] -= 0.01 * ((u > 0.0 ? 1.0 : -1.0) + 0.1 * x[i]);
      m[i] = 0.99 * m[i] + 0.01 * g[i];
    }
  });
}

TEST(Rules, MuonOrthogonalisesItsNesterovMomentum) {
  for (const auto& shape : {std::pair{5, 7}, {9, 4}}) {
    const int rows = shape.first, cols = shape.second;
    Matrix b(static_cast<std::size_t>(rows * cols), 0.0);
    expect_rule("muon", {{"clip", "0"}}, rows, cols, [&](Matrix& x, const std::vector<float>& g) {
      Matrix o(b.size());
      for (std::size_t i = 0; i < b.size(); ++i) {
        b[i] = 0.95 * b[i] + g[i];
        o[i] = g[i] + 0.95 * b[i];
      }
      o = newton_schulz(o, rows, cols);
      const double size = std::sqrt(std::max(rows, cols));
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] -= 0.01 * (0.5 * size * o[i] + 0.1 * x[i]);
      }
    });
  }
}

// Of all rows it is Muon with the classical momentum instead of Nesterov's.
TEST(Rules, Dion2OfAllRowsOrthogonalisesItsMomentum) {
  for (const auto& shape : {std::pair{5, 7}, {9, 4}}) {
    const int rows = shape.first, cols = shape.second;
    Matrix m(static_cast<std::size_t>(rows * cols), 0.0);
    expect_rule("dion2", {{"clip", "0"}, {"fraction", "1"}}, rows, cols,
                [&](Matrix& x, const std::vector<float>& g) {
                  for (std::size_t i = 0; i < m.size(); ++i) m[i] = 0.95 * m[i] + g[i];
                  const Matrix o = newton_schulz(m, rows, cols);
                  const double size = std::sqrt(std::max(rows, cols));
                  for (std::size_t i = 0; i < x.size(); ++i) {
                    x[i] -= 0.01 * (0.5 * size * o[i] + 0.1 * x[i]);
                  }
                });
  }
}

// Two of four rows: those move and decay, the others gather.
TEST(Rules, Dion2OfHalfTheRowsLeavesTheOthersToGather) {
  Matrix m(28, 0.0);
  expect_rule("dion2", {{"clip", "0"}, {"fraction", "0.5"}, {"weight_decay", "0"}}, 4, 7,
              [&](Matrix& x, const std::vector<float>& g) {
                std::vector<std::pair<double, int>> rows;
                for (int r = 0; r < 4; ++r) {
                  double sum = 0.0;
                  for (int c = 0; c < 7; ++c) sum += std::fabs(m[r * 7 + c] += g[r * 7 + c]);
                  rows.push_back({-sum, r});
                }
                std::sort(rows.begin(), rows.end());
                const int first = std::min(rows[0].second, rows[1].second);
                const int second = std::max(rows[0].second, rows[1].second);
                Matrix o(m.begin() + first * 7, m.begin() + first * 7 + 7);
                o.insert(o.end(), m.begin() + second * 7, m.begin() + second * 7 + 7);
                o = newton_schulz(o, 2, 7);
                for (int i = 0; i < 14; ++i) {
                  const int at = (i < 7 ? first : second) * 7 + i % 7;
                  x[at] -= 0.01 * 0.5 * std::sqrt(7.0) * o[i];
                  m[at] *= 0.95;
                }
              });
}

}  // namespace
}  // namespace thinwire::test
