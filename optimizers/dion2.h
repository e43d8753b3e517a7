// Dion2 (Ahn et al. 2025): Muon on a part of each hidden matrix. Momentum gathers, M += g; the
// fraction of its rows (of the shorter side: columns where there are fewer) with the largest L1
// norms is orthogonalised and applied, and only those rows decay, M = mu M. Tables and vectors
// follow AdamW.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "optimizers/muon.h"

namespace thinwire {

class Dion2Rule final : public MatrixRule {
 public:
  Dion2Rule(float fraction, MuonRule::Options options)
      : MatrixRule(options.rest), fraction_(fraction), options_(options) {}

 private:
  void move_matrix(const Piece& piece, Floats m, ConstFloats g, Floats x,
                   const Move& how) const override {
    kernels::scale_add(m, 1.0f, g, how.scale);
    kernels::scale(x, how.keep);
    const bool by_rows = piece.rows <= piece.cols;
    const std::vector<std::size_t> chosen = largest(m, piece, by_rows);
    const std::size_t lines = chosen.size();
    const std::size_t length = by_rows ? piece.cols : piece.rows;
    const auto at = [&](std::size_t line, std::size_t i) {
      return by_rows ? chosen[line] * piece.cols + i : i * piece.cols + chosen[line];
    };
    std::vector<float> o(lines * length);
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t i = 0; i < length; ++i) o[line * length + i] = m[at(line, i)];
    }
    kernels::orthogonalize(lines, length, o);
    const auto rate = static_cast<float>(how.lr * options_.matrix_rate * unit_size(piece));
    for (std::size_t line = 0; line < lines; ++line) {
      for (std::size_t i = 0; i < length; ++i) {
        x[at(line, i)] -= rate * o[line * length + i];
        m[at(line, i)] *= options_.momentum;
      }
    }
  }

  // Lines with the largest sums of magnitudes, ascending; of equal ones the first.
  std::vector<std::size_t> largest(ConstFloats m, const Piece& piece, bool by_rows) const {
    const std::size_t lines = by_rows ? piece.rows : piece.cols;
    std::vector<double> sums(lines, 0.0);
    for (std::size_t i = 0; i < m.size(); ++i) {
      sums[by_rows ? i / piece.cols : i % piece.cols] += std::fabs(m[i]);
    }
    std::vector<std::size_t> order(lines);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
    order.resize(std::max<std::size_t>(1, static_cast<std::size_t>(fraction_ * lines)));
    std::sort(order.begin(), order.end());
    return order;
  }

  float fraction_;
  MuonRule::Options options_;
};

}  // namespace thinwire
