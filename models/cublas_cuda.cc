// A row-major matrix is, read by columns, its transpose. So c = a b is asked for as c' = b' a'.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "models/cublas_internal.h"
#include "src/device/array.h"
#include "src/device/check.h"
#include "thinwire/error.h"

namespace thinwire::gpt {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what Hopper's kernels ask for
constexpr std::size_t kFloatsOfAWord = 4;                       // 16 bytes: no kernel needs more

template <class T>
using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;

// How a product is done. The library's answer is asked for once for each form of product.
struct Plan {
  Owned<cublasLtMatmulDescOpaque_t> desc;
  Owned<cublasLtMatrixLayoutOpaque_t> first, second, result;
  cublasLtMatmulAlgo_t algorithm;
};

// Rows, columns and strides of a, b and c, form, batch, and how a, b and c are aligned.
using Key = std::array<std::size_t, 15>;

std::size_t alignment(const float* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) / sizeof(float);
  return std::min<std::size_t>(address & -address, kFloatsOfAWord);
}

class CublasProducts final : public DeviceProducts {
 public:
  CublasProducts(Device device, const CublasLt& lt)
      : lt_(lt),
        device_(device),
        workspace_(device, kWorkspaceBytes),
        handle_(nullptr, lt.destroy) {
    device::check(cudaSetDevice(device.index()), "choosing the device");
    cublasLtHandle_t handle = nullptr;
    check(lt_.create(&handle), "starting");
    handle_.reset(handle);
  }

  void multiply(Form form, In a, In b, Out c, const Batch& batch) override {
    device::check(cudaSetDevice(device_.index()), "choosing the device");
    const Key key = {a.rows,
                     a.cols,
                     a.stride,
                     b.rows,
                     b.cols,
                     b.stride,
                     c.stride,
                     static_cast<std::size_t>(form),
                     batch.count,
                     batch.step_a,
                     batch.step_b,
                     batch.step_c,
                     alignment(a.data),
                     alignment(b.data),
                     alignment(c.data)};
    auto found = plans_.find(key);
    if (found == plans_.end()) found = plans_.emplace(key, plan(form, a, b, c, batch)).first;
    const Plan& plan = found->second;
    const float one = 1.0f;
    const float zero = 0.0f;
    check(lt_.matmul(handle_.get(), plan.desc.get(), &one, b.data, plan.first.get(), a.data,
                     plan.second.get(), &zero, c.data, plan.result.get(), c.data, plan.result.get(),
                     &plan.algorithm, workspace_.get(), kWorkspaceBytes, cudaStreamPerThread),
          "multiplying");
  }

 private:
  void check(cublasStatus_t answer, const char* doing) const {
    if (answer == CUBLAS_STATUS_SUCCESS) return;
    throw Error(std::string("cuBLASLt failed in ") + doing + ": " + lt_.words(answer) +
                "; go on from a checkpoint, with another device or --device cpu");
  }

  Owned<cublasLtMatrixLayoutOpaque_t> layout(In matrix, std::size_t count, std::size_t step) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(lt_.layout_create(&made, CUDA_R_32F, matrix.cols, matrix.rows,
                            static_cast<std::int64_t>(matrix.stride)),
          "describing a matrix");
    Owned<cublasLtMatrixLayoutOpaque_t> owned(made, lt_.layout_destroy);
    if (count == 1) return owned;
    const auto matrices = static_cast<std::int32_t>(count);
    const auto offset = static_cast<std::int64_t>(step);
    check(lt_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof matrices),
          "describing a batch");
    check(lt_.layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset),
          "describing a batch");
    return owned;
  }

  Owned<cublasLtMatmulDescOpaque_t> describe(Form form) const {
    cublasLtMatmulDesc_t made = nullptr;
    check(lt_.desc_create(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    Owned<cublasLtMatmulDescOpaque_t> owned(made, lt_.desc_destroy);
    const std::int32_t first = form == Form::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
    const std::int32_t second = form == Form::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt_.desc_set(made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
          "describing a product");
    check(lt_.desc_set(made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
          "describing a product");
    return owned;
  }

  Owned<cublasLtMatmulPreferenceOpaque_t> preference(In a, In b, In c) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(lt_.preference_create(&made), "stating preferences");
    Owned<cublasLtMatmulPreferenceOpaque_t> owned(made, lt_.preference_destroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(lt_.preference_set(made, what, &value, sizeof value), "stating preferences");
    };
    const auto bytes = [](In matrix) {
      return static_cast<std::uint32_t>(alignment(matrix.data) * sizeof(float));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
    // Parts of a sum are added in a step of its own, in one order.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(c));
    return owned;
  }

  Plan plan(Form form, In a, In b, In c, const Batch& batch) const {
    Plan plan{describe(form),
              layout(b, batch.count, batch.step_b),
              layout(a, batch.count, batch.step_a),
              layout(c, batch.count, batch.step_c),
              {}};
    const auto preferred = preference(a, b, c);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t answer =
        lt_.heuristic(handle_.get(), plan.desc.get(), plan.first.get(), plan.second.get(),
                      plan.result.get(), plan.result.get(), preferred.get(), 1, &best, &found);
    if (answer == CUBLAS_STATUS_NOT_SUPPORTED || (answer == CUBLAS_STATUS_SUCCESS && found == 0)) {
      throw Error("cuBLASLt has no product of " + std::to_string(c.rows) + " x " +
                  std::to_string(c.cols) +
                  " values for this device; update cuBLAS, or use "
                  "--device cpu");
    }
    check(answer, "choosing a product");
    plan.algorithm = best.algo;
    return plan;
  }

  const CublasLt& lt_;
  const Device device_;
  device::Array<std::byte> workspace_;
  Owned<cublasLtContext> handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace

std::unique_ptr<DeviceProducts> make_cublas_products(Device device, const CublasLt& lt) {
  return std::make_unique<CublasProducts>(device, lt);
}

}  // namespace thinwire::gpt
