#include "models/gpt_kernels_internal.h"

namespace thinwire::gpt {

const GptKernels* gpt_kernels() { return nullptr; }

}  // namespace thinwire::gpt
