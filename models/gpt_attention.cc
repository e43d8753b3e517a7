#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "models/gpt_math.h"

namespace thinwire::math {
namespace {

template <class S>
using Row = Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>>;
template <class S>
using ConstRow = Eigen::Map<const Eigen::Array<S, Eigen::Dynamic, 1>>;

// Rows are worked on in whole SIMD words: their ends would cost more than the words themselves.
constexpr std::size_t kWord = 8;

std::size_t whole_words(std::size_t count, std::size_t limit) {
  return std::min((count + kWord - 1) / kWord * kWord, limit);
}

// The rows of a head's q, k or v within qkv (part 0, 1, 2), or of its output.
template <class S>
View<S> head_rows(S* rows, const Attention<std::remove_const_t<S>>& shape, std::size_t part,
                  std::size_t head, std::size_t parts) {
  const std::size_t size = shape.width / shape.heads;
  return {rows + part * shape.width + head * size, shape.context, size, parts * shape.width};
}

// Row i of scores becomes softmax(factor * scores) over columns 0 .. i, and zero beyond.
template <class S>
void causal_softmax(S* scores, std::size_t context, S factor) {
  for (std::size_t i = 0; i < context; ++i) {
    S* values = scores + i * context;
    const std::size_t used = i + 1;
    const std::size_t worked = whole_words(used, context);
    std::fill(values + used, values + worked, values[i]);
    Row<S> row(values, worked);
    const S top = row.maxCoeff();
    row = ((row - top) * factor).exp();
    std::fill(values + used, values + context, S(0));
    row *= S(1) / row.sum();
  }
}

// d_scores (of the probabilities) becomes the gradient of the raw scores:
// factor * p * (d - sum(p * d)).
template <class S>
void softmax_backward(const S* probabilities, S* d_scores, std::size_t context, S factor) {
  for (std::size_t i = 0; i < context; ++i) {
    const std::size_t worked = whole_words(i + 1, context);
    const ConstRow<S> p(probabilities + i * context, worked);
    Row<S> d(d_scores + i * context, worked);
    const S dot = (p * d).sum();
    d = p * (d - dot) * factor;
    std::fill(d_scores + i * context + worked, d_scores + (i + 1) * context, S(0));
  }
}

}  // namespace

template <class S>
void Attention<S>::forward(const S* qkv, S* probabilities, S* out) const {
  const S factor = S(1) / std::sqrt(static_cast<S>(width / heads));
  for (std::size_t task = 0; task < sequences * heads; ++task) {
    const std::size_t head = task % heads;
    const S* rows = qkv + task / heads * context * 3 * width;
    S* scores = probabilities + task * context * context;
    View<S> p(scores, context, context);
    Product<S>::nt(head_rows(rows, *this, 0, head, 3), head_rows(rows, *this, 1, head, 3), p);
    causal_softmax(scores, context, factor);
    Product<S>::nn(p, head_rows(rows, *this, 2, head, 3),
                   head_rows(out + task / heads * context * width, *this, 0, head, 1));
  }
}

template <class S>
void Attention<S>::backward(const S* qkv, const S* probabilities, const S* d_out, S* d_qkv,
                            S* d_scores) const {
  const S factor = S(1) / std::sqrt(static_cast<S>(width / heads));
  for (std::size_t task = 0; task < sequences * heads; ++task) {
    const std::size_t head = task % heads;
    const S* rows = qkv + task / heads * context * 3 * width;
    S* d_rows = d_qkv + task / heads * context * 3 * width;
    const View<const S> p(probabilities + task * context * context, context, context);
    const View<const S> d_o = head_rows(d_out + task / heads * context * width, *this, 0, head, 1);
    View<S> d_s(d_scores, context, context);
    Product<S>::tn(p, d_o, head_rows(d_rows, *this, 2, head, 3));
    Product<S>::nt(d_o, head_rows(rows, *this, 2, head, 3), d_s);
    softmax_backward(p.data, d_scores, context, factor);
    Product<S>::nn(d_s, head_rows(rows, *this, 1, head, 3), head_rows(d_rows, *this, 0, head, 3));
    Product<S>::tn(d_s, head_rows(rows, *this, 0, head, 3), head_rows(d_rows, *this, 1, head, 3));
  }
}

template <class S>
void Attention<S>::rotate(const S* cosines, const S* sines, S direction, S* qkv) const {
  const std::size_t size = width / heads;
  const std::size_t half = size / 2;
  for (std::size_t row = 0; row < sequences * context; ++row) {
    const ConstRow<S> c(cosines + row % context * half, half);
    const ConstRow<S> s(sines + row % context * half, half);
    // The heads of q, then those of k: neighbours in a row of qkv.
    for (std::size_t head = 0; head < 2 * heads; ++head) {
      S* values = qkv + row * 3 * width + head * size;
      for (std::size_t j = 0; j < half; ++j) {
        const S x = values[j];
        const S y = values[j + half];
        values[j] = x * c[j] - direction * y * s[j];
        values[j + half] = y * c[j] + direction * x * s[j];
      }
    }
  }
}

template struct Attention<float>;
template struct Attention<double>;

}  // namespace thinwire::math
