// What attention is besides its products: rows of tokens become a matrix for each head and back,
// with rotary positions (Su et al. 2021, eq. 15) on the way, and a softmax that looks back only.
#include <cmath>

#include "models/gpt_kernels.cuh"
#include "models/gpt_warp.cuh"

namespace thinwire::gpt {
namespace {

// Where a value lies in rows of tokens.
struct Cell {
  std::size_t row, col;  // col: its place in a row
  std::size_t part, position, j;
};

// The i-th value of the matrices.
__device__ Cell cell_of_heads(const Heads& how, std::size_t i) {
  const std::size_t j = i % how.size;
  const std::size_t position = i / how.size % how.context;
  const std::size_t matrix = i / how.size / how.context;
  const std::size_t head = matrix % how.heads;
  const std::size_t sequence = matrix / how.heads % how.sequences;
  const std::size_t part = matrix / how.heads / how.sequences;
  return {sequence * how.context + position, (part * how.heads + head) * how.size + j, part,
          position, j};
}

// The i-th value of the rows, and where it lies in the matrices.
__device__ Cell cell_of_rows(const Heads& how, std::size_t i, std::size_t& there) {
  const std::size_t width = how.parts * how.heads * how.size;
  const std::size_t row = i / width;
  const std::size_t col = i % width;
  const std::size_t j = col % how.size;
  const std::size_t head = col / how.size % how.heads;
  const std::size_t part = col / how.size / how.heads;
  const std::size_t sequence = row / how.context;
  const std::size_t position = row % how.context;
  there =
      (((part * how.sequences + sequence) * how.heads + head) * how.context + position) * how.size +
      j;
  return {row, col, part, position, j};
}

// Value j of a head is turned together with its partner, half a head away.
struct Turn {
  bool turns, first;
  float c, s;
};

__device__ Turn turn_of(const Heads& how, const Cell& cell) {
  if (how.cosines == nullptr || cell.part > 1) return {false, false, 1.0f, 0.0f};
  const std::size_t half = how.size / 2;
  const bool first = cell.j < half;
  const std::size_t at = cell.position * half + (first ? cell.j : cell.j - half);
  return {true, first, how.cosines[at], how.sines[at]};
}

__global__ void to_heads_kernel(Heads how) {
  const std::size_t width = how.parts * how.heads * how.size;
  const std::size_t half = how.size / 2;
  for (std::size_t i = global_thread(); i < how.sequences * how.context * width;
       i += all_threads()) {
    const Cell cell = cell_of_heads(how, i);
    const float* row = how.in + cell.row * width;
    float value = row[cell.col];
    if (how.bias != nullptr) value += how.bias[cell.col];
    const Turn turn = turn_of(how, cell);
    if (turn.turns) {
      const std::size_t other = turn.first ? cell.col + half : cell.col - half;
      float partner = row[other];
      if (how.bias != nullptr) partner += how.bias[other];
      value = turn.first ? value * turn.c - partner * turn.s : value * turn.c + partner * turn.s;
    }
    how.out[i] = value;
  }
}

__global__ void to_rows_kernel(Heads how) {
  const std::size_t width = how.parts * how.heads * how.size;
  const std::size_t half = how.size / 2;
  for (std::size_t i = global_thread(); i < how.sequences * how.context * width;
       i += all_threads()) {
    std::size_t there = 0;
    const Cell cell = cell_of_rows(how, i, there);
    float value = how.in[there];
    const Turn turn = turn_of(how, cell);
    if (turn.turns) {
      const float partner = how.in[turn.first ? there + half : there - half];
      value = turn.first ? value * turn.c + partner * turn.s : value * turn.c - partner * turn.s;
    }
    how.out[i] = value;
  }
}

__global__ void softmax_kernel(CausalSoftmax how, float* scores) {
  for (std::size_t row = first_row(); row < how.rows; row += row_step()) {
    float* values = scores + row * how.context;
    const std::size_t used = row % how.context + 1;
    float top = -INFINITY;
    for (std::size_t j = lane(); j < used; j += kWarp) top = fmaxf(top, values[j]);
    top = warp_max(top);
    float sum = 0.0f;
    for (std::size_t j = lane(); j < used; j += kWarp) {
      const float e = expf((values[j] - top) * how.factor);
      values[j] = e;
      sum += e;
    }
    const float share = 1.0f / warp_sum(sum);
    for (std::size_t j = lane(); j < how.context; j += kWarp) {
      values[j] = j < used ? values[j] * share : 0.0f;
    }
  }
}

__global__ void softmax_backward_kernel(CausalSoftmax how, const float* p, float* d) {
  for (std::size_t row = first_row(); row < how.rows; row += row_step()) {
    const float* chances = p + row * how.context;
    float* values = d + row * how.context;
    const std::size_t used = row % how.context + 1;
    float dot = 0.0f;
    for (std::size_t j = lane(); j < used; j += kWarp) dot += chances[j] * values[j];
    dot = warp_sum(dot);
    for (std::size_t j = lane(); j < how.context; j += kWarp) {
      values[j] = j < used ? chances[j] * (values[j] - dot) * how.factor : 0.0f;
    }
  }
}

device::Shape shape_of(const Heads& how) {
  return device::shape_for(how.sequences * how.context * how.parts * how.heads * how.size);
}

}  // namespace

void rows_to_heads(int device, const Heads& how) {
  device::launch(device, to_heads_kernel, shape_of(how), how);
}

void heads_to_rows(int device, const Heads& how) {
  device::launch(device, to_rows_kernel, shape_of(how), how);
}

void softmax(int device, const CausalSoftmax& how, float* scores) {
  device::launch(device, softmax_kernel, warps_for(how.rows), how, scores);
}

void softmax_backward(int device, const CausalSoftmax& how, const float* p, float* d) {
  device::launch(device, softmax_backward_kernel, warps_for(how.rows), how, p, d);
}

}  // namespace thinwire::gpt
