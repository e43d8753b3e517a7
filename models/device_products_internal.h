// Matrix products on a device, for a model there. cublas_cuda.cc does them by cuBLASLt; without a
// toolkit there are none. Used by one thread at a time; work is handed
// over in that thread's order. The same product gives the same bits when it is done again.
#pragma once

#include <cstddef>
#include <memory>

#include "models/gpt_math.h"
#include "thinwire/types.h"

namespace thinwire::gpt {

// Which factor is read transposed: c = a b, c = a b^T, c = a^T b.
enum class Form { nn, nt, tn };

// The same product of `count` matrices each; from one to the next it is so many floats.
struct Batch {
  std::size_t count = 1;
  std::size_t step_a = 0;
  std::size_t step_b = 0;
  std::size_t step_c = 0;
};

class DeviceProducts {
 public:
  using In = math::View<const float>;
  using Out = math::View<float>;

  virtual ~DeviceProducts() = default;
  // Overwrites c, which overlaps neither a nor b. Sums are of fp32 products, in fp32 (no tf32).
  // Throws Error with the library's words.
  virtual void multiply(Form form, In a, In b, Out c, const Batch& batch = {}) = 0;
};

// Throws Error when the library cannot be loaded or does not know the device.
std::unique_ptr<DeviceProducts> make_device_products(Device device);

}  // namespace thinwire::gpt
