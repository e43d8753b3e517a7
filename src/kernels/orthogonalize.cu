// Newton and Schulz's iteration on a device, to the bit what orthogonalize.cc computes: every
// element of a product is one thread's sum, over k ascending, each product and sum rounded by
// itself.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "src/kernels/flat_twins.h"
#include "src/kernels/norm_piece.h"
#include "src/kernels/tile_twins.h"
#include "thinwire/error.h"

namespace thinwire::kernels {
namespace {

// A block makes 64 x 64 elements of a product, a thread 4 x 4 of them; 16 terms at a time lie in
// shared memory.
constexpr int kBlockSide = 64;
constexpr int kDepth = 16;
constexpr int kThreads = 256;
constexpr int kOwn = 4;
constexpr int kRow = kBlockSide + 4;  // keeps rows at 16 bytes and apart in their banks

constexpr float kA = 3.4445f;
constexpr float kB = -4.7750f;
constexpr float kC = 2.0315f;

// Element (i, k) of a factor at first + i * across + k * along; one of both is 1.
struct Factor {
  const float* first;
  std::size_t across;
  std::size_t along;
};

// out(i, j) = sum over k of left(i, k) right(j, k), or x_factor x(i, j) + sum_factor times that.
struct Product {
  Factor left;
  Factor right;
  std::size_t rows;
  std::size_t cols;
  std::size_t terms;
  const float* x;  // null: the sum alone
  float x_factor;
  float sum_factor;
  bool symmetric;  // the upper half is computed and mirrored
  float* out;      // row-major
};

struct alignas(16) Depths {
  float of[kDepth][kRow];
};

// of[k][i] = factor(begin + i, first + k), zeros beyond.
__device__ inline void load(const Factor& factor, std::size_t begin, std::size_t end,
                            std::size_t first, std::size_t terms, Depths& to) {
  const bool along = factor.along == 1;  // neighbouring threads read neighbouring floats
  for (int n = static_cast<int>(threadIdx.x); n < kDepth * kBlockSide; n += kThreads) {
    const int k = along ? n % kDepth : n / kBlockSide;
    const int i = along ? n / kDepth : n % kBlockSide;
    const bool inside = begin + i < end && first + k < terms;
    to.of[k][i] =
        inside ? factor.first[(begin + i) * factor.across + (first + k) * factor.along] : 0.0f;
  }
}

struct alignas(16) FourFloats {
  float of[kOwn];
};

__device__ inline void add_depths(const Depths& left, const Depths& right, int row, int column,
                                  float (&sums)[kOwn][kOwn]) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const FourFloats a = *reinterpret_cast<const FourFloats*>(&left.of[k][row]);
    const FourFloats b = *reinterpret_cast<const FourFloats*>(&right.of[k][column]);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        sums[i][j] = __fadd_rn(sums[i][j], __fmul_rn(a.of[i], b.of[j]));
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) multiply(Product product) {
  __shared__ Depths left;
  __shared__ Depths right;
  const std::size_t across = (product.cols + kBlockSide - 1) / kBlockSide;
  const std::size_t block_row = blockIdx.x / across;
  const std::size_t block_column = blockIdx.x % across;
  if (product.symmetric && block_row > block_column) return;
  const bool mirrored = product.symmetric && block_row < block_column;
  const int row = static_cast<int>(threadIdx.x) / (kBlockSide / kOwn) * kOwn;
  const int column = static_cast<int>(threadIdx.x) % (kBlockSide / kOwn) * kOwn;
  float sums[kOwn][kOwn] = {};
  for (std::size_t first = 0; first < product.terms; first += kDepth) {
    load(product.left, block_row * kBlockSide, product.rows, first, product.terms, left);
    load(product.right, block_column * kBlockSide, product.cols, first, product.terms, right);
    __syncthreads();
    add_depths(left, right, row, column, sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const std::size_t r = block_row * kBlockSide + row + i;
    if (r >= product.rows) continue;
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const std::size_t c = block_column * kBlockSide + column + j;
      if (c >= product.cols) continue;
      float made = sums[i][j];
      if (product.x != nullptr) {
        const float x = __fmul_rn(product.x_factor, product.x[r * product.cols + c]);
        made = __fadd_rn(x, __fmul_rn(product.sum_factor, made));
      }
      product.out[r * product.cols + c] = made;
      if (mirrored) product.out[c * product.cols + r] = made;
    }
  }
}

__global__ void __launch_bounds__(256)
    divide_by_norm(std::size_t count, const float* x, float divisor, float* out) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = first; i < count; i += step) out[i] = x[i] / divisor;
}

double norm_of(ConstFloats matrix) {
  std::vector<ShardRange> pieces;
  for (std::size_t at = 0; at < matrix.size(); at += kNormPiece) {
    pieces.push_back({at, std::min(kNormPiece, matrix.size() - at)});
  }
  std::vector<double> squares(pieces.size());
  twins::sum_squares(matrix, pieces, squares);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

void launch_product(Device device, const Product& product) {
  const std::size_t blocks =
      (product.rows + kBlockSide - 1) / kBlockSide * ((product.cols + kBlockSide - 1) / kBlockSide);
  TW_CHECK(blocks < std::size_t{1} << 31);
  device::launch(device.index(), multiply, {static_cast<unsigned>(blocks), kThreads}, product);
}

// Everything lies row-major; X of the formulas is the matrix, or its transpose if that is wide.
struct Iteration {
  Device device;
  std::size_t rows;
  std::size_t cols;
  float* gram;        // A = X X^T
  float* polynomial;  // B = b A + c A A

  std::size_t side() const { return rows < cols ? rows : cols; }

  // next = a X + B X; a product does not depend on the order of its factors, and B is symmetric.
  void step(const float* matrix, float* next) const {
    const std::size_t m = side();
    const bool tall = rows > cols;
    const Factor x = tall ? Factor{matrix, 1, cols} : Factor{matrix, cols, 1};
    launch_product(device, {.left = x,
                            .right = x,
                            .rows = m,
                            .cols = m,
                            .terms = tall ? rows : cols,
                            .x = nullptr,
                            .x_factor = 0.0f,
                            .sum_factor = 0.0f,
                            .symmetric = true,
                            .out = gram});
    const Factor a{gram, m, 1};
    launch_product(device, {.left = a,
                            .right = a,
                            .rows = m,
                            .cols = m,
                            .terms = m,
                            .x = gram,
                            .x_factor = kB,
                            .sum_factor = kC,
                            .symmetric = true,
                            .out = polynomial});
    const Factor b{polynomial, m, 1};
    launch_product(device, {.left = tall ? Factor{matrix, cols, 1} : b,
                            .right = tall ? b : Factor{matrix, 1, cols},
                            .rows = rows,
                            .cols = cols,
                            .terms = m,
                            .x = matrix,
                            .x_factor = kA,
                            .sum_factor = 1.0f,
                            .symmetric = false,
                            .out = next});
  }
};

}  // namespace

namespace twins {

void orthogonalize(std::size_t rows, std::size_t cols, Floats matrix, int iterations) {
  if (matrix.empty()) return;
  const Device device = matrix.device();
  const auto norm = static_cast<float>(norm_of(matrix) + 1e-7);
  const std::size_t side = rows < cols ? rows : cols;
  const device::Array<float> spare(device, matrix.size());
  const device::Array<float> gram(device, side * side);
  const device::Array<float> polynomial(device, side * side);
  // So that the last step writes to the matrix.
  float* from = iterations % 2 == 0 ? matrix.data() : spare.get();
  float* to = iterations % 2 == 0 ? spare.get() : matrix.data();
  device::launch(device.index(), divide_by_norm, device::shape_for(matrix.size()), matrix.size(),
                 matrix.data(), norm, from);
  const Iteration iteration{device, rows, cols, gram.get(), polynomial.get()};
  for (int i = 0; i < iterations; ++i) {
    iteration.step(from, to);
    std::swap(from, to);
  }
}

}  // namespace twins
}  // namespace thinwire::kernels
