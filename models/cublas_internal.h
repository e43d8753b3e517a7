// cuBLASLt without linking to it: half a gigabyte that only a model on a device needs. Its
// functions go through a table, which also is where tests put something else.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/device_products_internal.h"

namespace thinwire::gpt {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) words;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

// From the first of these files that can be loaded. Throws Error that says what to do when none
// can, or when it is of another major version than the header.
CublasLt load_cublas(std::span<const std::string> files);
// Where it is looked for: as the system finds it, then where the toolkit was at build time.
std::vector<std::string> cublas_files();

// `lt` must outlive them.
std::unique_ptr<DeviceProducts> make_cublas_products(Device device, const CublasLt& lt);

}  // namespace thinwire::gpt
