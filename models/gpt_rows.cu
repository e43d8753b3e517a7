// Sums along rows, a warp each: layer norm and cross-entropy; and sums over rows, in two stages
// whose order the sizes alone decide.
#include <cmath>

#include "models/gpt_kernels.cuh"
#include "models/gpt_warp.cuh"

namespace thinwire::gpt {
namespace {

__device__ float residual_at(const Residual& in, std::size_t i, std::size_t col) {
  float value = in.in[i];
  if (in.add != nullptr) value += in.add[i];
  if (in.bias != nullptr) value += in.bias[col];
  return value;
}

__global__ void add_rows_kernel(Residual how) {
  for (std::size_t i = global_thread(); i < how.rows * how.width; i += all_threads()) {
    how.out[i] = residual_at(how, i, i % how.width);
  }
}

__global__ void norm_kernel(Residual in, Norm how) {
  constexpr float kEps = 1e-5f;
  const float share = 1.0f / static_cast<float>(in.width);
  for (std::size_t row = first_row(); row < in.rows; row += row_step()) {
    const std::size_t begin = row * in.width;
    float sum = 0.0f;
    for (std::size_t j = lane(); j < in.width; j += kWarp) {
      const float x = residual_at(in, begin + j, j);
      if (in.out != nullptr) in.out[begin + j] = x;
      sum += x;
    }
    const float mean = warp_sum(sum) * share;
    const float* x = in.out != nullptr ? in.out + begin : in.in + begin;
    float squares = 0.0f;
    for (std::size_t j = lane(); j < in.width; j += kWarp) {
      squares += (x[j] - mean) * (x[j] - mean);
    }
    const float scale = 1.0f / sqrtf(warp_sum(squares) * share + kEps);
    for (std::size_t j = lane(); j < in.width; j += kWarp) {
      const float y = (x[j] - mean) * scale * how.gain[j];
      how.out[begin + j] = how.bias != nullptr ? y + how.bias[j] : y;
    }
    if (lane() == 0) {
      how.mean[row] = mean;
      how.scale[row] = scale;
    }
  }
}

// With n the normalized row and d = d_out * gain: d_in += scale * (d - mean(d) - n * mean(d * n)).
__global__ void norm_backward_kernel(NormGradient how) {
  const float share = 1.0f / static_cast<float>(how.width);
  for (std::size_t row = first_row(); row < how.rows; row += row_step()) {
    const std::size_t begin = row * how.width;
    const float mean = how.mean[row];
    const float scale = how.scale[row];
    float d_sum = 0.0f;
    float dn_sum = 0.0f;
    for (std::size_t j = lane(); j < how.width; j += kWarp) {
      const float d = how.d_out[begin + j] * how.gain[j];
      d_sum += d;
      dn_sum += d * ((how.in[begin + j] - mean) * scale);
    }
    const float mean_d = warp_sum(d_sum) * share;
    const float mean_dn = warp_sum(dn_sum) * share;
    for (std::size_t j = lane(); j < how.width; j += kWarp) {
      const float d = how.d_out[begin + j] * how.gain[j];
      const float n = (how.in[begin + j] - mean) * scale;
      const float gradient = (d - mean_d - n * mean_dn) * scale;
      how.d_in[begin + j] = how.fresh ? gradient : how.d_in[begin + j] + gradient;
    }
  }
}

constexpr unsigned kColumns = 128;     // of a block in the first stage, one a thread
constexpr std::size_t kBandRows = 16;  // at least

struct Bands {
  std::size_t count, rows, across;  // across: blocks side by side
};

Bands bands_of(const ColumnSums& how) {
  const std::size_t most = (how.rows + kBandRows - 1) / kBandRows;
  const std::size_t count = most < kBandsMost ? most : kBandsMost;
  const std::size_t rows = (how.rows + count - 1) / count;
  return {(how.rows + rows - 1) / rows, rows, (how.cols + kColumns - 1) / kColumns};
}

// A block adds kColumns columns of one band.
__global__ void band_kernel(ColumnSums how, Bands bands) {
  const std::size_t band = blockIdx.x / bands.across;
  const std::size_t col = blockIdx.x % bands.across * kColumns + threadIdx.x;
  if (col >= how.cols) return;
  const std::size_t first = band * bands.rows;
  const std::size_t end = first + bands.rows < how.rows ? first + bands.rows : how.rows;
  float gain = 0.0f;
  float bias = 0.0f;
  for (std::size_t row = first; row < end; ++row) {
    const float d = how.d[row * how.cols + col];
    bias += d;
    if (how.d_gain != nullptr) {
      gain += d * ((how.in[row * how.cols + col] - how.mean[row]) * how.scale[row]);
    }
  }
  how.scratch[band * how.cols + col] = bias;
  if (how.d_gain != nullptr) how.scratch[(kBandsMost + band) * how.cols + col] = gain;
}

__device__ void add_bands(const ColumnSums& how, const float* sums, std::size_t bands, float* out) {
  for (std::size_t col = global_thread(); col < how.cols; col += all_threads()) {
    float sum = 0.0f;
    for (std::size_t band = 0; band < bands; ++band) sum += sums[band * how.cols + col];
    out[col] = sum;
  }
}

__global__ void close_bands_kernel(ColumnSums how, Bands bands) {
  if (how.d_bias != nullptr) add_bands(how, how.scratch, bands.count, how.d_bias);
  if (how.d_gain != nullptr) {
    add_bands(how, how.scratch + kBandsMost * how.cols, bands.count, how.d_gain);
  }
}

__global__ void cross_entropy_kernel(CrossEntropy how) {
  for (std::size_t row = first_row(); row < how.rows; row += row_step()) {
    float* values = how.logits + row * how.vocab;
    const std::uint32_t target = how.targets[row];
    float top = -INFINITY;
    for (std::size_t j = lane(); j < how.vocab; j += kWarp) top = fmaxf(top, values[j]);
    top = warp_max(top);
    const float wanted = values[target] - top;
    __syncwarp();  // all have read it
    float sum = 0.0f;
    for (std::size_t j = lane(); j < how.vocab; j += kWarp) {
      const float e = expf(values[j] - top);
      values[j] = e;
      sum += e;
    }
    sum = warp_sum(sum);
    const float share = how.scale / sum;
    for (std::size_t j = lane(); j < how.vocab; j += kWarp) {
      values[j] = values[j] * share - (j == target ? how.scale : 0.0f);
    }
    if (lane() == 0) {
      how.row_losses[row] = log(static_cast<double>(sum)) - static_cast<double>(wanted);
    }
  }
}

// One block.
__global__ void sum_losses_kernel(CrossEntropy how) {
  __shared__ double sums[kThreads];
  double sum = 0.0;
  for (std::size_t row = threadIdx.x; row < how.rows; row += kThreads) sum += how.row_losses[row];
  sums[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *how.loss = sums[0];
}

}  // namespace

void add_rows(int device, const Residual& how) {
  device::launch(device, add_rows_kernel, device::shape_for(how.rows * how.width), how);
}

void norm(int device, const Residual& in, const Norm& how) {
  device::launch(device, norm_kernel, warps_for(in.rows), in, how);
}

void norm_backward(int device, const NormGradient& how) {
  device::launch(device, norm_backward_kernel, warps_for(how.rows), how);
}

void column_sums(int device, const ColumnSums& how) {
  if (how.d_gain == nullptr && how.d_bias == nullptr) return;
  const Bands bands = bands_of(how);
  device::launch(device, band_kernel, {static_cast<unsigned>(bands.count * bands.across), kColumns},
                 how, bands);
  device::launch(device, close_bands_kernel, device::shape_for(how.cols, kColumns), how, bands);
}

void cross_entropy(int device, const CrossEntropy& how) {
  device::launch(device, cross_entropy_kernel, warps_for(how.rows), how);
  device::launch(device, sum_losses_kernel, {1, kThreads}, how);
}

}  // namespace thinwire::gpt
