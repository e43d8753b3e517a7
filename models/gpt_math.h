// The passes over memory that a GPT consists of: matrix products and what lies between them. Plain
// pointers, row-major; defined for float and double. Pure functions: safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace thinwire::math {

// A matrix within a larger one: row i begins at data + i * stride.
template <class Scalar>
struct View {
  Scalar* data;
  std::size_t rows;
  std::size_t cols;
  std::size_t stride;

  View(Scalar* values, std::size_t height, std::size_t width, std::size_t step = 0)
      : data(values), rows(height), cols(width), stride(step == 0 ? width : step) {}
  template <class Other>
  requires std::is_same_v<const Other, Scalar> View(const View<Other>& other)
      : View(other.data, other.rows, other.cols, other.stride) {}
};

template <class S>
struct Product {
  using In = View<const S>;
  static void nn(In a, In b, View<S> c);      // c = a b
  static void add_nn(In a, In b, View<S> c);  // c += a b
  static void nt(In a, In b, View<S> c);      // c = a b^T
  static void tn(In a, In b, View<S> c);      // c = a^T b
};

// out = base + bias in every row; either may be null, then it counts as zero. What a product adds
// to.
template <class S>
void fill_rows(View<S> out, const S* base, const S* bias);
// sums[j] = sum over rows; nothing when sums is null.
template <class S>
void sum_rows(View<const S> values, S* sums);

// Layer norm over rows of `width` values, eps 1e-5. mean and scale (1 / deviation) are kept.
template <class S>
struct Norm {
  std::size_t rows;
  std::size_t width;
  const S* in;
  S* mean;
  S* scale;
  const S* gain;
  const S* bias;  // may be null

  void forward(S* out) const;
  // d_in += gradient. d_gain and d_bias are overwritten unless null; scratch: 2 width values.
  void backward(const S* d_out, S* d_in, S* d_gain, S* d_bias, S* scratch) const;
};

// y = gelu(x), x = gelu'(x): the derivative takes the place of what is no longer needed.
template <class S>
void gelu(std::size_t count, S* x, S* y);
// Rows of [gate, up]: y = silu(gate) up; gate = silu'(gate) up, up = silu(gate).
template <class S>
void swiglu(std::size_t rows, std::size_t hidden, S* x, S* y);
// x (the derivative, `inner` wide: hidden or twice that) becomes the gradient of what entered the
// activation; d_bias gets its sum over rows unless null.
template <class S>
void activation_backward(std::size_t rows, std::size_t hidden, std::size_t inner, const S* d_y,
                         S* x, S* d_bias);

// Sum of -log softmax(logits)[target] over rows; logits become scale * (softmax - one at target).
template <class S>
double cross_entropy(View<S> logits, const std::uint8_t* targets, S scale);

// Causal attention of all heads; q, k and v lie side by side in rows of 3 * width values.
template <class S>
struct Attention {
  std::size_t sequences;
  std::size_t context;
  std::size_t width;
  std::size_t heads;

  void forward(const S* qkv, S* probabilities, S* out) const;
  // d_scores: scratch of context * context.
  void backward(const S* qkv, const S* probabilities, const S* d_out, S* d_qkv, S* d_scores) const;
  // Turns the pairs (j, j + size / 2) of every q and k by the angle of their position; with sines
  // negated, turns back. cosines, sines: [context, size / 2].
  void rotate(const S* cosines, const S* sines, S direction, S* qkv) const;
};

}  // namespace thinwire::math
