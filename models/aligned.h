// Arrays that begin at a cache line: loops over them split into SIMD words the same way every time,
// so that results do not depend on where an allocator put them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace thinwire {

template <class Scalar>
struct AlignedDelete {
  void operator()(Scalar* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
template <class Scalar>
using AlignedArray = std::unique_ptr<Scalar[], AlignedDelete<Scalar>>;

// All zeros.
template <class Scalar>
AlignedArray<Scalar> aligned_array(std::size_t count) {
  return AlignedArray<Scalar>(new (std::align_val_t(64)) Scalar[count]());
}

}  // namespace thinwire
