#include "src/codec/dense.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <string>

namespace thinwire {
namespace {

using Dense = Result<std::vector<float>>;

constexpr int kLevel = 1;
constexpr std::size_t kFloatBytes = 4;

// The lowest bytes of all values, then the second, third and highest: signs and exponents, the part
// that compresses, come to lie together.
Bytes to_planes(ConstFloats values) {
  const std::size_t n = values.size();
  Bytes planes(n * kFloatBytes);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    for (std::size_t p = 0; p < kFloatBytes; ++p)
      planes[p * n + i] = static_cast<std::byte>(bits >> (8 * p));
  }
  return planes;
}

std::vector<float> from_planes(ByteView planes) {
  const std::size_t n = planes.size() / kFloatBytes;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    for (std::size_t p = 0; p < kFloatBytes; ++p)
      bits |= static_cast<std::uint32_t>(planes[p * n + i]) << (8 * p);
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

// Empty unless shorter than the planes by more than the length field it needs.
Bytes compress(ByteView planes) {
  Bytes packed(ZSTD_compressBound(planes.size()));
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), planes.data(), planes.size(), kLevel);
  if (ZSTD_isError(size)) throw Error(std::string("zstd failed: ") + ZSTD_getErrorName(size));
  packed.resize(size + sizeof(std::uint64_t) < planes.size() ? size : 0);
  return packed;
}

Dense judge_raw(ByteView planes) {
  if (!compress(planes).empty()) return Dense::refuse("dense values that should be compressed");
  return from_planes(planes);
}

Dense judge_packed(ByteView packed, std::size_t floats) {
  Bytes planes(floats * kFloatBytes);
  const std::size_t size =
      ZSTD_decompress(planes.data(), planes.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) || size != planes.size())
    return Dense::refuse("compressed dense values are damaged");
  const Bytes again = compress(planes);
  if (!std::equal(again.begin(), again.end(), packed.begin(), packed.end()))
    return Dense::refuse("dense values are not compressed in the one agreed way");
  return from_planes(planes);
}

}  // namespace

std::uint32_t dense_version() { return ZSTD_versionNumber(); }

bool append_dense(Bytes& out, ConstFloats values) {
  put_le(out, dense_version());
  const Bytes planes = to_planes(values);
  const Bytes packed = compress(planes);
  if (packed.empty()) {
    append(out, planes);
    return false;
  }
  put_le(out, std::uint64_t{packed.size()});
  append(out, packed);
  return true;
}

Dense take_dense(Reader& bytes, std::size_t floats, bool compressed) {
  std::uint32_t version = 0;
  if (!bytes.take(version)) return Dense::refuse("ends within its dense values");
  if (version != dense_version())
    return Dense::refuse("dense values made with zstd " + std::to_string(version) + ", here runs " +
                         std::to_string(dense_version()) + "; use one zstd version on all sites");
  std::uint64_t size = std::uint64_t{floats} * kFloatBytes;
  if (compressed && !bytes.take(size)) return Dense::refuse("ends within its dense values");
  ByteView section;
  if (size > bytes.left() || !bytes.take(static_cast<std::size_t>(size), section))
    return Dense::refuse("ends within its dense values");
  return compressed ? judge_packed(section, floats) : judge_raw(section);
}

}  // namespace thinwire
