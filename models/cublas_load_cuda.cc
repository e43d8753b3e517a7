#include <dlfcn.h>

#include "models/cublas_internal.h"
#include "thinwire/error.h"

#define THINWIRE_WORDS_OF(x) #x
#define THINWIRE_WORDS(x) THINWIRE_WORDS_OF(x)

namespace thinwire::gpt {
namespace {

constexpr const char* kFile = "libcublasLt.so." THINWIRE_WORDS(CUBLAS_VER_MAJOR);

[[noreturn]] void refuse(const std::string& why) {
  throw Error("a model on a CUDA device needs the library " + std::string(kFile) + ": " + why +
              "; install cuBLAS of CUDA " THINWIRE_WORDS(CUBLAS_VER_MAJOR) " or name its folder in "
              "LD_LIBRARY_PATH, or use --device cpu");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) refuse(std::string("it has no function ") + name);
}

}  // namespace

CublasLt load_cublas(std::span<const std::string> files) {
  void* library = nullptr;
  std::string why = "nowhere to look for it";
  for (const std::string& file : files) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (const char* words = dlerror()) why = words;
  }
  if (library == nullptr) refuse(why);
  CublasLt lt{};
  find(library, "cublasLtCreate", lt.create);
  find(library, "cublasLtDestroy", lt.destroy);
  find(library, "cublasLtGetVersion", lt.version);
  find(library, "cublasLtGetStatusString", lt.words);
  find(library, "cublasLtMatmul", lt.matmul);
  find(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  find(library, "cublasLtMatmulDescCreate", lt.desc_create);
  find(library, "cublasLtMatmulDescDestroy", lt.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", lt.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", lt.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", lt.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  if (lt.version() / 10000 != CUBLAS_VER_MAJOR) {
    refuse("this one is of version " + std::to_string(lt.version()));
  }
  return lt;
}

std::vector<std::string> cublas_files() {
  return {kFile, std::string(THINWIRE_CUBLAS_DIR) + "/" + kFile};
}

}  // namespace thinwire::gpt
