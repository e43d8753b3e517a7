// Matrix products of the emulated device: plain loops in the order of the stream, in place of
// models/device_products_cuda.cc. Sums are in double, as far from any library's order as from
// another's.
#include <cuda_runtime_api.h>

#include "models/device_products_internal.h"
#include "src/device/check.h"

namespace thinwire::gpt {
namespace {

struct Work {
  Form form;
  DeviceProducts::In a, b;
  DeviceProducts::Out c;
  Batch batch;

  // How many products a sum has.
  std::size_t depth() const { return form == Form::tn ? a.rows : a.cols; }
  float left(std::size_t i, std::size_t k, std::size_t n) const {
    return a.data[n * batch.step_a + (form == Form::tn ? k * a.stride + i : i * a.stride + k)];
  }
  float right(std::size_t k, std::size_t j, std::size_t n) const {
    return b.data[n * batch.step_b + (form == Form::nt ? j * b.stride + k : k * b.stride + j)];
  }
  void run() const {
    for (std::size_t n = 0; n < batch.count; ++n) {
      for (std::size_t i = 0; i < c.rows; ++i) {
        for (std::size_t j = 0; j < c.cols; ++j) {
          double sum = 0.0;
          for (std::size_t k = 0; k < depth(); ++k) {
            sum += static_cast<double>(left(i, k, n)) * right(k, j, n);
          }
          c.data[n * batch.step_c + i * c.stride + j] = static_cast<float>(sum);
        }
      }
    }
  }
};

class PlainProducts final : public DeviceProducts {
 public:
  explicit PlainProducts(Device device) : device_(device) {}
  void multiply(Form form, In a, In b, Out c, const Batch& batch) override {
    const Work work{form, a, b, c, batch};
    TW_CHECK((form == Form::tn ? a.cols : a.rows) == c.rows);
    TW_CHECK((form == Form::nt ? b.rows : b.cols) == c.cols);
    TW_CHECK((form == Form::nt ? b.cols : b.rows) == work.depth());
    device::check(cudaSetDevice(device_.index()), "choosing the device");
    device::check(fake_cuda::hand_over(cudaStreamPerThread, [work] { work.run(); }), "multiplying");
  }

 private:
  const Device device_;
};

}  // namespace

std::unique_ptr<DeviceProducts> make_device_products(Device device) {
  return std::make_unique<PlainProducts>(device);
}

}  // namespace thinwire::gpt
