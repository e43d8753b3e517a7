#include "thinwire/error.h"

#include <cstdio>
#include <cstdlib>

namespace thinwire {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "thinwire: broken promise: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace thinwire
