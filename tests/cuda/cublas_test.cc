// cuBLASLt is found where a toolkit is, and asked for the right products: its functions are played
// by a column-major multiplication here, on the emulated device.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "models/cublas_internal.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire::fake_cuda {

cudaError_t hand_over(cudaStream_t stream, std::function<void()> work);  // of the emulated device

}  // namespace thinwire::fake_cuda

namespace thinwire::gpt {
namespace {

constexpr Device kDevice = Device::cuda(0);

struct FakeLayout {
  std::uint64_t rows, cols;
  std::int64_t step;  // from column to column
  std::int32_t count = 1;
  std::int64_t offset = 0;
  float at(const float* data, std::size_t n, std::size_t i, std::size_t j, bool turned) const {
    return data[n * offset + (turned ? i * step + j : j * step + i)];
  }
};

struct FakeDesc {
  std::int32_t turns_a = CUBLAS_OP_N;
  std::int32_t turns_b = CUBLAS_OP_N;
};

// What the library was asked, and what it answers.
struct Library {
  int living = 0;
  int questions = 0;
  std::vector<std::uint32_t>
      alignments;  // of a and b as the library sees them, and c: of a question
  std::uint32_t reductions = 0;
  std::size_t workspace = 0;
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t matmul = CUBLAS_STATUS_SUCCESS;
  int found = 1;
};
Library library;

template <class T>
T set_value(const void* value, std::size_t bytes) {
  EXPECT_EQ(bytes, sizeof(T));
  T result{};
  std::memcpy(&result, value, sizeof result);
  return result;
}

cublasStatus_t make_layout(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                           std::uint64_t cols, std::int64_t step) {
  EXPECT_EQ(type, CUDA_R_32F);
  ++library.living;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new FakeLayout{rows, cols, step});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                          const void* value, std::size_t bytes) {
  auto& fake = *reinterpret_cast<FakeLayout*>(layout);
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    fake.count = set_value<std::int32_t>(value, bytes);
  } else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
    fake.offset = set_value<std::int64_t>(value, bytes);
  } else {
    ADD_FAILURE() << "layout attribute " << what;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t make_desc(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                         cudaDataType_t scale) {
  EXPECT_EQ(compute, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(scale, CUDA_R_32F);
  ++library.living;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new FakeDesc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                        const void* value, std::size_t bytes) {
  auto& fake = *reinterpret_cast<FakeDesc*>(desc);
  (what == CUBLASLT_MATMUL_DESC_TRANSA ? fake.turns_a : fake.turns_b) =
      set_value<std::int32_t>(value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_preference(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t what,
                              const void* value, std::size_t bytes) {
  if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    library.workspace = set_value<std::uint64_t>(value, bytes);
  } else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    library.reductions = set_value<std::uint32_t>(value, bytes);
  } else if (what != CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) {
    library.alignments.push_back(set_value<std::uint32_t>(value, bytes));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t choose(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                      cublasLtMatmulPreference_t, int wanted,
                      cublasLtMatmulHeuristicResult_t* results, int* found) {
  EXPECT_EQ(wanted, 1);
  results[0].algo.data[0] = static_cast<std::uint64_t>(++library.questions);
  *found = library.found;
  return library.heuristic;
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                        const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                        cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                        cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes,
                        cudaStream_t stream) {
  const auto& how = *reinterpret_cast<FakeDesc*>(desc);
  const FakeLayout left = *reinterpret_cast<FakeLayout*>(a_layout);
  const FakeLayout right = *reinterpret_cast<FakeLayout*>(b_layout);
  const FakeLayout out = *reinterpret_cast<FakeLayout*>(d_layout);
  EXPECT_EQ(*static_cast<const float*>(alpha), 1.0f);
  EXPECT_EQ(*static_cast<const float*>(beta), 0.0f);
  EXPECT_EQ(c, d);
  EXPECT_NE(algorithm->data[0], 0u);
  EXPECT_NE(workspace, nullptr);
  EXPECT_EQ(bytes, library.workspace);
  EXPECT_EQ(stream, cudaStreamPerThread);
  const bool a_turned = how.turns_a == CUBLAS_OP_T;
  const bool b_turned = how.turns_b == CUBLAS_OP_T;
  const std::size_t depth = a_turned ? left.rows : left.cols;
  EXPECT_EQ(depth, b_turned ? right.cols : right.rows);
  EXPECT_EQ(out.rows, a_turned ? left.cols : left.rows);
  EXPECT_EQ(out.cols, b_turned ? right.rows : right.cols);
  EXPECT_TRUE(left.count == out.count && right.count == out.count);
  const auto work = [=] {
    for (std::int32_t n = 0; n < out.count; ++n) {
      for (std::size_t j = 0; j < out.cols; ++j) {
        for (std::size_t i = 0; i < out.rows; ++i) {
          float sum = 0.0f;
          for (std::size_t k = 0; k < depth; ++k) {
            sum += left.at(static_cast<const float*>(a), n, i, k, a_turned) *
                   right.at(static_cast<const float*>(b), n, k, j, b_turned);
          }
          static_cast<float*>(d)[n * out.offset + j * out.step + i] = sum;
        }
      }
    }
  };
  EXPECT_EQ(fake_cuda::hand_over(stream, work), cudaSuccess);
  return library.matmul;
}

template <class Fake, class Handle>
cublasStatus_t end(Handle handle) {
  --library.living;
  delete reinterpret_cast<Fake*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Handle>
cublasStatus_t make_nothing(Handle* made) {
  ++library.living;
  *made = reinterpret_cast<Handle>(new int);
  return CUBLAS_STATUS_SUCCESS;
}

const CublasLt& fake_cublas() {
  static const CublasLt table = {
      .create = &make_nothing<cublasLtHandle_t>,
      .destroy = &end<int, cublasLtHandle_t>,
      .version = [] { return std::size_t{130000}; },
      .words = [](cublasStatus_t) { return "words of the library"; },
      .matmul = &multiply,
      .heuristic = &choose,
      .desc_create = &make_desc,
      .desc_destroy = &end<FakeDesc, cublasLtMatmulDesc_t>,
      .desc_set = &set_desc,
      .layout_create = &make_layout,
      .layout_destroy = &end<FakeLayout, cublasLtMatrixLayout_t>,
      .layout_set = &set_layout,
      .preference_create = &make_nothing<cublasLtMatmulPreference_t>,
      .preference_destroy = &end<int, cublasLtMatmulPreference_t>,
      .preference_set = &set_preference,
  };
  return table;
}

class CublasProducts : public ::testing::Test {
 protected:
  CublasProducts() { library = {}; }
};

// A matrix within rows of `stride` values, on the device.
struct Matrix {
  std::size_t rows, cols, stride, count;
  FloatBuffer there;
  std::vector<float> here;

  Matrix(std::size_t height, std::size_t width, std::size_t matrices)
      : rows(height), cols(width), stride(width + 3), count(matrices), here(size()) {
    for (std::size_t i = 0; i < here.size(); ++i) here[i] = static_cast<float>(i % 7) - 2.0f;
    there = FloatBuffer(here, kDevice);
  }
  std::size_t step() const { return rows * stride + 5; }
  std::size_t size() const { return count * step(); }
  math::View<float> view() { return {there.floats().data(), rows, cols, stride}; }
  float at(std::size_t n, std::size_t i, std::size_t j) const {
    return here[n * step() + i * stride + j];
  }
};

void expect_product(DeviceProducts& products, Form form, std::size_t count) {
  constexpr std::size_t kRows = 3, kCols = 5, kDepth = 4;
  Matrix a(form == Form::tn ? kDepth : kRows, form == Form::tn ? kRows : kDepth, count);
  Matrix b(form == Form::nt ? kCols : kDepth, form == Form::nt ? kDepth : kCols, count);
  Matrix c(kRows, kCols, count);
  const Batch batch =
      count == 1
          ? Batch{}
          : Batch{.count = count, .step_a = a.step(), .step_b = b.step(), .step_c = c.step()};
  products.multiply(form, a.view(), b.view(), c.view(), batch);
  std::vector<float> wanted = c.here;  // what lies between rows and matrices is left alone
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kCols; ++j) {
        float sum = 0.0f;
        for (std::size_t k = 0; k < kDepth; ++k) {
          sum += (form == Form::tn ? a.at(n, k, i) : a.at(n, i, k)) *
                 (form == Form::nt ? b.at(n, j, k) : b.at(n, k, j));
        }
        wanted[n * c.step() + i * c.stride + j] = sum;
      }
    }
  }
  EXPECT_EQ(to_host(c.there), wanted);
}

TEST_F(CublasProducts, AreThoseOfRowMajorMatricesInEachForm) {
  const auto products = make_cublas_products(kDevice, fake_cublas());
  for (const Form form : {Form::nn, Form::nt, Form::tn}) {
    for (const std::size_t count : {1u, 3u}) expect_product(*products, form, count);
  }
}

TEST_F(CublasProducts, AreChosenOnceForEachShapeAndAlignment) {
  const auto products = make_cublas_products(kDevice, fake_cublas());
  FloatBuffer memory(300, kDevice);
  float* data = memory.floats().data();
  const auto multiply_at = [&](std::size_t shift) {
    library.alignments.clear();
    products->multiply(Form::nn, {data + shift, 4, 4}, {data + 100, 4, 4}, {data + 200, 4, 4});
  };
  multiply_at(0);
  EXPECT_EQ(library.questions, 1);
  EXPECT_EQ(library.alignments, (std::vector<std::uint32_t>{16, 16, 16}));
  multiply_at(4);
  EXPECT_EQ(library.questions, 1);
  multiply_at(2);
  EXPECT_EQ(library.questions, 2);
  EXPECT_EQ(library.alignments, (std::vector<std::uint32_t>{16, 8, 16}));  // b comes first there
  multiply_at(1);
  EXPECT_EQ(library.questions, 3);
  EXPECT_EQ(library.alignments[1], 4u);
  products->multiply(Form::nt, {data, 4, 4}, {data + 100, 4, 4}, {data + 200, 4, 4});
  EXPECT_EQ(library.questions, 4);
  EXPECT_EQ(library.reductions, unsigned{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
}

TEST_F(CublasProducts, GiveBackAllThatTheyTook) {
  {
    const auto products = make_cublas_products(kDevice, fake_cublas());
    expect_product(*products, Form::nn, 2);
    EXPECT_GT(library.living, 0);
  }
  EXPECT_EQ(library.living, 0);
}

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CublasProducts, SayWhatTheLibrarySaid) {
  const auto products = make_cublas_products(kDevice, fake_cublas());
  FloatBuffer memory(64, kDevice);
  float* data = memory.floats().data();
  const auto multiply_all = [&] {
    products->multiply(Form::nn, {data, 4, 4}, {data + 16, 4, 4}, {data + 32, 4, 4});
  };
  library.found = 0;
  EXPECT_NE(complaint(multiply_all).find("no product of 4 x 4 values"), std::string::npos);
  library.found = 1;
  library.heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
  EXPECT_NE(complaint(multiply_all).find("--device cpu"), std::string::npos);
  library.heuristic = CUBLAS_STATUS_SUCCESS;
  library.matmul = CUBLAS_STATUS_EXECUTION_FAILED;
  EXPECT_NE(complaint(multiply_all).find("words of the library"), std::string::npos);
  library.matmul = CUBLAS_STATUS_SUCCESS;
  EXPECT_EQ(complaint(multiply_all), "");
}

// A toolkit of the build machine, or a system's own; neither needs a driver for that.
TEST(CublasLibrary, IsFoundAndOfTheVersionOfTheHeader) {
  const std::vector<std::string> files = cublas_files();
  EXPECT_EQ(files.size(), 2u);
  const CublasLt lt = load_cublas(files);
  EXPECT_EQ(lt.version() / 10000, std::size_t{CUBLAS_VER_MAJOR});
  EXPECT_NE(std::string(lt.words(CUBLAS_STATUS_NOT_SUPPORTED)), "");
}

TEST(CublasLibrary, SaysWhatToDoWhereItIsMissingOrSomethingElse) {
  const std::vector<std::string> missing = {"libthinwire_no_such_library.so"};
  const std::string said = complaint([&] { load_cublas(missing); });
  EXPECT_NE(said.find("libcublasLt.so."), std::string::npos) << said;
  EXPECT_NE(said.find("libthinwire_no_such_library.so"), std::string::npos) << said;
  EXPECT_NE(said.find("LD_LIBRARY_PATH"), std::string::npos) << said;
  const std::vector<std::string> other = {"libm.so.6"};
  EXPECT_NE(complaint([&] { load_cublas(other); }).find("it has no function cublasLtCreate"),
            std::string::npos);
}

}  // namespace
}  // namespace thinwire::gpt
